"""Functions give what TensorFlow gave: `record_calls.py` says how it was recorded."""

import json

import numpy as np
import pytest

from mirrax import tf
from tests.tf.recorded.calls import CALLS, NAMES
from tests.tf.recorded.record_calls import RESULTS, to_plain

EXPECTED = json.loads(RESULTS.read_text())


def test_every_call_was_recorded():
    assert sorted(EXPECTED) == sorted(CALLS)


@pytest.mark.parametrize("call", CALLS)
def test_call_gives_what_tensorflow_gave(call):
    assert_same(to_plain(eval(call, {"tf": tf, **NAMES})), EXPECTED[call])


def assert_same(got, want):
    if isinstance(want, list):
        assert isinstance(got, list)
        assert len(got) == len(want)
        for left, right in zip(got, want, strict=True):
            assert_same(left, right)
        return
    assert in_32_bits(got["dtype"]) == in_32_bits(want["dtype"])
    assert got["shape"] == want["shape"]
    if want["dtype"] == "string":
        assert got["values"] == want["values"]
    else:
        np.testing.assert_allclose(got["values"], want["values"], rtol=2e-5, atol=2e-6)


def in_32_bits(dtype):
    wide = {"int64": "int32", "float64": "float32", "complex128": "complex64"}
    return wide.get(dtype, dtype)
