"""Each multi-worker program gives TensorFlow's answers, one process for each task."""

import json

import pytest

from tests.conformance.check import (
    compare,
    compare_independent,
    find_programs,
    same,
)
from tests.conformance.independent import DEPENDENT, INDEPENDENT

PROGRAMS = find_programs("multi_worker")


def check(comparison, name=""):
    assert not comparison.note, comparison.note
    got, want = json.dumps(comparison.got), json.dumps(comparison.want)
    assert same(comparison.got, comparison.want), f"{name}\nwant {want}\ngot  {got}"


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_task_answers_as_tensorflow_does(path):
    comparisons = list(compare(path, "mirrax.tf"))
    assert comparisons
    for comparison in comparisons:
        check(comparison)


# One test for all of them, because those for one cluster share their processes.
@pytest.mark.slow
def test_two_devices_per_worker_change_nothing_but_the_replicas():
    compared = set()
    for path, comparison in compare_independent(PROGRAMS, "mirrax.tf", num_devices=2):
        check(comparison, path.stem)
        compared.add(path.stem)
    assert compared == INDEPENDENT.keys()


def test_every_program_is_known_to_depend_on_replicas_or_not():
    assert sorted([*INDEPENDENT, *DEPENDENT]) == [path.stem for path in PROGRAMS]
