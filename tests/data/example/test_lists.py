"""The lists of values: what they take, and the round trip."""

import numpy as np
import pytest

from mirrax.data.example import BytesList, FloatList, Int64List


@pytest.mark.parametrize(
    "message",
    [
        BytesList([b"a"]),
        FloatList([0.5]),
        Int64List([-3]),
    ],
    ids=repr,
)
def test_lists_round_trip(message):
    assert type(message).FromString(message.SerializeToString()) == message


def test_floats_are_rounded():
    assert FloatList([0.1]).value == [float(np.float32(0.1))]


def test_large_floats_are_infinite():
    assert FloatList([1e300]).value == [float("inf")]


def test_arrays_can_be_values():
    assert Int64List(value=np.arange(3)).value == [0, 1, 2]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: BytesList(["a"]), TypeError, r"must be bytes.*'a' of type str"),
        (lambda: BytesList(b"a"), TypeError, r"Use value=\[b'a'\]"),
        (lambda: FloatList(["1"]), TypeError, "must be a number"),
        (lambda: FloatList(1.0), TypeError, r"Use value=\[1\.0\]"),
        (lambda: Int64List([1.5]), TypeError, "must be an integer"),
        (lambda: Int64List([1 << 63]), ValueError, "fit in 64 bits"),
    ],
)
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
