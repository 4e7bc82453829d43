"""Python that decides on tensors gives what it gives in TensorFlow."""

import json

import numpy as np
import pytest

from mirrax import tf
from tests.tf.python_flow import PROGRAMS, RESULTS, plain

EXPECTED = json.loads(RESULTS.read_text())

CAUGHT = pytest.mark.xfail(
    reason="the program catches the error that JAX raises for `if` on a tensor"
)
MARKS = {"try_around": CAUGHT, "try_around_raise": CAUGHT}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, ())) for name in PROGRAMS]
)
def test_program_gives_what_tensorflow_gave(name):
    np.testing.assert_equal(
        rounded(plain(PROGRAMS[name](tf, np))), rounded(EXPECTED[name])
    )


def test_every_program_is_recorded():
    assert EXPECTED.keys() == PROGRAMS.keys()


def rounded(value):
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value
