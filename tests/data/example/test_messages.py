"""The messages: the format, byte by byte, and the round trip."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data.example import (
    BytesList,
    Example,
    Feature,
    Features,
    FixedLenFeature,
    FloatList,
    Int64List,
    parse_single_example,
)
from mirrax.errors import DataLossError
from tests.data.example.examples import EXAMPLES, NEGATIVE, floats, ints, strings

FLOATS = bytes.fromhex("0a130a110a0166120c120a0a080000803f000000c0")  # {f: [1, -2]}
STRINGS = bytes.fromhex("0a100a0e0a016212090a070a0261000a010a")  # {b: [b"a\0", b"\n"]}


@pytest.mark.parametrize(
    ("golden", "feature"),
    [
        (NEGATIVE, {"x": ints(-1, 300)}),
        (FLOATS, {"f": floats(1.0, -2.0)}),
        (STRINGS, {"b": strings(b"a\0", b"\n")}),
    ],
    ids=["ints", "floats", "strings"],
)
def test_golden_bytes_are_written_and_read(golden, feature):
    example = Example(features=Features(feature=feature))
    assert example.SerializeToString() == golden
    assert Example.FromString(golden) == example


@given(EXAMPLES)
def test_examples_round_trip(example):
    assert Example.FromString(example.SerializeToString()) == example


def test_values_can_be_appended():
    example = Example()
    example.features.feature["x"] = Feature()
    example.features.feature["x"].int64_list.value.append(7)
    parsed = parse_single_example(
        example.SerializeToString(), {"x": FixedLenFeature((), np.int64)}
    )
    assert parsed == {"x": 7}


@pytest.mark.parametrize(
    ("feature", "kind"),
    [
        (strings(), "bytes_list"),
        (floats(1), "float_list"),
        (ints(1), "int64_list"),
        (Feature(), None),
    ],
    ids=repr,
)
def test_feature_knows_its_kind(feature, kind):
    assert feature.WhichOneof("kind") == kind


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: BytesList(["a"]), TypeError, r"must be bytes.*'a' of type str"),
        (lambda: BytesList(b"a"), TypeError, r"Use value=\[b'a'\]"),
        (lambda: FloatList(["1"]), TypeError, "must be a number"),
        (lambda: FloatList(1.0), TypeError, r"Use value=\[1\.0\]"),
        (lambda: Int64List([1.5]), TypeError, "must be an integer"),
        (lambda: Int64List([1 << 63]), ValueError, "fit in 64 bits"),
        (lambda: Feature(BytesList(), FloatList()), ValueError, "one kind"),
    ],
)
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@given(st.binary(max_size=60))
def test_random_bytes_never_do_worse_than_data_loss(data):
    with contextlib.suppress(DataLossError):
        Example.FromString(data)


def test_a_message_becomes_what_it_is_given():
    example = Example(Features({"x": Feature(int64_list=Int64List([3]))}))
    data = example.SerializeToString()
    other = Example()
    assert other.ParseFromString(data) == len(data)
    assert other == example


def test_floats_are_rounded():
    assert FloatList([0.1]).value == [float(np.float32(0.1))]


def test_large_floats_are_infinite():
    assert FloatList([1e300]).value == [float("inf")]


def test_arrays_can_be_values():
    assert Int64List(value=np.arange(3)).value == [0, 1, 2]
