"""Encodings that are allowed but unusual, and bytes that are no example."""

import struct

import numpy as np
import pytest

from mirrax.data.example import Example, FixedLenFeature, VarLenFeature, parse_example
from mirrax.errors import DataLossError
from tests.data.example.examples import NEGATIVE, example_of, field


@pytest.mark.parametrize(
    ("feature", "expected"),
    [
        (field(3, b"\x08\x01\x08\xac\x02"), [1, 300]),
        (field(3, b"\x08\x01" + field(1, b"\x02\x03") + b"\x08\x04"), [1, 2, 3, 4]),
        (field(3, field(1, b"\x01")) + field(3, field(1, b"\x02")), [1, 2]),
        (field(2, field(1, b"abcd")) + field(3, field(1, b"\x02")), [2]),
        (field(3, b"\x10\x05" + field(1, b"\x02")), [2]),
        (field(9, b"??") + field(3, field(1, b"\x02")), [2]),
        (field(3, b"\x11" + b"8 bytes!" + field(1, b"\x02")), [2]),
        (field(3, b""), []),
        (b"", []),
    ],
    ids=[
        "unpacked",
        "mixed",
        "merged",
        "last_kind",
        "unknown_varint",
        "unknown_bytes",
        "unknown_fixed64",
        "no_values",
        "no_kind",
    ],
)
@pytest.mark.parametrize("num_records", [1, 9])
def test_unusual_encodings_of_integers_are_parsed(feature, expected, num_records):
    records = [example_of(feature)] * num_records
    parsed = parse_example(records, {"x": VarLenFeature(np.int64)})
    assert [x.tolist() for x in parsed["x"]] == [expected] * num_records


@pytest.mark.parametrize("num_records", [1, 9])
def test_unpacked_floats_are_parsed(num_records):
    values = b"".join(b"\x0d" + struct.pack("<f", v) for v in (0.5, -1))
    records = [example_of(field(2, values))] * num_records
    parsed = parse_example(records, {"x": FixedLenFeature([2], np.float32)})
    assert parsed["x"].tolist() == [[0.5, -1]] * num_records


def test_last_of_a_name_counts():
    entries = [
        field(1, b"x") + field(2, field(3, field(1, bytes([i])))) for i in (1, 2)
    ]
    record = field(1, b"".join(field(1, entry) for entry in entries))
    parsed = parse_example([record] * 5, {"x": FixedLenFeature((), np.int64)})
    assert parsed["x"].tolist() == [2] * 5


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x00\x01",
        b"\x0f",
        b"\xff" * 11,
        b"\x0d\x01",
        NEGATIVE[:-1],
        example_of(field(2, field(1, b"abc"))),
        example_of(field(3, field(1, b"\x01\x80"))),
        example_of(field(3, field(1, b"\x80" * 10 + b"\x01"))),
        field(1, field(1, field(1, b"\xff\xfe"))),
    ],
    ids=repr,
)
def test_garbage_is_an_error(garbage):
    records = [NEGATIVE, garbage]
    with pytest.raises(DataLossError, match=r"Received: example 1 of \d+ bytes: .*"):
        parse_example(records, {"x": VarLenFeature(np.int64)})
    with pytest.raises(DataLossError, match=r"Received: \d+ bytes: "):
        Example.FromString(garbage)
