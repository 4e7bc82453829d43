"""Each multi-worker program gives TensorFlow's answers, one process for each task."""

import json

import pytest

from tests.conformance.check import compare_on_workers, find_programs, same
from tests.conformance.independent import DEPENDENT, INDEPENDENT

PROGRAMS = find_programs("multi_worker")


def require_same_answers(num_devices):
    """Returns the names of the programs that were compared."""
    compared = set()
    for path, comparison in compare_on_workers(PROGRAMS, "mirrax.tf", num_devices):
        assert not comparison.note, f"{path.stem}\n{comparison.note}"
        got, want = json.dumps(comparison.got), json.dumps(comparison.want)
        difference = f"{path.stem}\nwant {want}\ngot  {got}"
        assert same(comparison.got, comparison.want), difference
        compared.add(path.stem)
    return compared


# One test for all programs, because those for one cluster share their processes.
@pytest.mark.slow
def test_every_task_answers_as_tensorflow_does():
    assert require_same_answers(num_devices=1) == {path.stem for path in PROGRAMS}


@pytest.mark.slow
def test_two_devices_per_worker_change_nothing_but_the_replicas():
    assert require_same_answers(num_devices=2) == INDEPENDENT.keys()


def test_every_program_is_known_to_depend_on_replicas_or_not():
    assert sorted([*INDEPENDENT, *DEPENDENT]) == [path.stem for path in PROGRAMS]
