"""Each multi-worker program gives TensorFlow's answers, one process for each task."""

import json

import pytest

from tests.conformance.check import compare, find_programs, same


@pytest.mark.parametrize(
    "path", find_programs("multi_worker"), ids=lambda path: path.stem
)
def test_every_task_answers_as_tensorflow_does(path):
    comparisons = list(compare(path, "mirrax.tf"))
    assert comparisons
    for comparison in comparisons:
        assert not comparison.note, comparison.note
        got, want = comparison.got, comparison.want
        assert same(got, want), f"\nwant {json.dumps(want)}\ngot  {json.dumps(got)}"
