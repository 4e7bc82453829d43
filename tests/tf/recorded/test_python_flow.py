"""Python that decides on tensors gives what it gives in TensorFlow."""

import json

import numpy as np
import pytest

from mirrax import tf
from mirrax.tf.autograph import fallback
from tests.tf.recorded.python_flow import PROGRAMS, RESULTS, plain, rounded

EXPECTED = json.loads(RESULTS.read_text())


# The shapes of their results depend on values.
RUN_BY_PYTHON = {"dynamic_shape", "fill_n"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_gives_what_tensorflow_gave(name, monkeypatch, caplog):
    monkeypatch.setattr(fallback, "_told", set())
    np.testing.assert_equal(
        rounded(plain(PROGRAMS[name](tf, np))), rounded(EXPECTED[name])
    )
    assert bool(caplog.records) == (name in RUN_BY_PYTHON)


def test_every_program_is_recorded():
    assert EXPECTED.keys() == PROGRAMS.keys()
