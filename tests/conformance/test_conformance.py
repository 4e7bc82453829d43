"""Each case gives TensorFlow's answer, in this process."""

import contextvars
import json

import numpy as np
import pytest

import mirrax.tf
from tests.conformance.check import expected, find_programs, load, same


@pytest.fixture
def run_case():
    """Runs a case and takes back the ambient state that it may have left behind."""
    # Scopes live in context variables: a copy of the context ends with the case.
    yield lambda case: contextvars.copy_context().run(case, mirrax.tf, np)
    mirrax.tf.distribute.experimental_set_strategy(None)


# Cases use old names on purpose; that these warn is tested elsewhere.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", find_programs(), ids=lambda path: path.stem)
def test_case_answers_as_tensorflow_does(path, run_case):
    answer = run_case(load(path).case)
    # Answers were recorded as JSON, where a tuple is a list and every key a string.
    assert_same(json.loads(json.dumps(answer)), expected(path)["result"])


def assert_same(got, want):
    assert same(got, want), f"\nwant {json.dumps(want)}\ngot  {json.dumps(got)}"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.0000001),
        ([1, {"x": 0.0}], [1, {"x": 1e-7}]),
        ("float64", "float32"),
        (None, None),
    ],
)
def test_same_accepts_equal_answers(a, b):
    assert same(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.001),
        (True, 1),
        ([1], [1, 1]),
        ({"x": 1}, {"y": 1}),
        ("float32", "int32"),
        (float("nan"), 0.0),
        (None, 0),
    ],
)
def test_same_refuses_different_answers(a, b):
    assert not same(a, b)
