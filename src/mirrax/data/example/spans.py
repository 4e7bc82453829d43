"""Parses a message in two steps: the offsets of values, then the values."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from mirrax.data.example.features import BYTES, DTYPES, FLOAT, INT64, Array
from mirrax.data.example.protobuf import (
    DELIMITED,
    FIXED32,
    VARINT,
    MalformedError,
    check_varints,
    decode_numbers,
    fields,
)
from mirrax.data.plan.columns import as_objects
from mirrax.errors import DataLossError

_T = TypeVar("_T")


@dataclasses.dataclass
class Spans:
    """The offsets of the values of a feature.

    Args:
        kind: The kind of values; 0 if there are none.
        places: Start and stop of a string, of packed numbers or of one number.
        are_free: Whether changing the bytes changes only the values. False for unpacked
            varints, whose length determines the next field's offset.
    """

    kind: int = 0
    places: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    are_free: bool = True


def read_example(data: bytes) -> dict[str, Spans]:
    """Returns where the values of each feature of an example are."""
    found: dict[str, Spans] = {}
    for number, wire_type, start, stop in fields(data, 0, len(data)):
        if number == 1 and wire_type == DELIMITED:
            read_features(data, start, stop, found)
    return found


def read_features(data: bytes, start: int, stop: int, found: dict[str, Spans]) -> None:
    """Adds where the values of each feature are to those found before."""
    for number, wire_type, begin, end in fields(data, start, stop):
        if number == 1 and wire_type == DELIMITED:
            name, spans = _read_entry(data, begin, end)
            found[name] = spans  # as in any Protobuf map, the last of a name counts


def read_feature(
    data: bytes, start: int, stop: int, spans: Spans | None = None
) -> Spans:
    """Returns where the values of a feature are, after those found before."""
    spans = spans or Spans()
    for kind, wire_type, begin, end in fields(data, start, stop):
        if kind in DTYPES and wire_type == DELIMITED:
            if kind != spans.kind:
                spans = Spans(kind)
            _read_places(data, begin, end, spans)
    return spans


def read_list(data: bytes, kind: int) -> list[Any]:
    """Returns the values of a list of a kind."""
    spans = Spans(kind)
    read_or_raise(lambda: _read_places(data, 0, len(data), spans), data)
    values: list[Any] = values_of(data, spans)[1].tolist()
    return values


def values_of(data: bytes, spans: Spans | None) -> tuple[int, Array]:
    """Returns the kind of values, 0 for none, and the values."""
    if spans is None or not spans.kind:
        return 0, np.empty(0)
    if spans.kind == BYTES:
        return BYTES, as_objects([data[a:b] for a, b in spans.places])
    joined = b"".join([data[start:stop] for start, stop in spans.places])
    return spans.kind, decode_numbers(joined, spans.kind)


def read_or_raise(read: Callable[[], _T], data: bytes) -> _T:
    """Returns what a function reads from bytes, or raises a `DataLossError`."""
    try:
        return read()
    except MalformedError as error:
        raise parse_error(f"{len(data)} bytes", error) from None


def parse_error(received: str, error: MalformedError) -> DataLossError:
    """Returns the error for bytes that are no message."""
    return DataLossError(
        "Could not parse example input: it must be a serialized `tf.train.Example`. "
        f"Received: {received}: {error}. "
        "Use what `SerializeToString()` returned, or parse with another function."
    )


def _read_entry(data: bytes, start: int, stop: int) -> tuple[str, Spans]:
    name, spans = "", Spans()
    for number, wire_type, begin, end in fields(data, start, stop):
        if number == 1 and wire_type == DELIMITED:
            name = _read_name(data, begin, end)
        elif number == 2 and wire_type == DELIMITED:
            spans = read_feature(data, begin, end, spans)
    return name, spans


def _read_name(data: bytes, start: int, stop: int) -> str:
    try:
        return data[start:stop].decode()
    except UnicodeDecodeError:
        raise MalformedError(f"the name at {start} is not UTF-8") from None


def _read_places(data: bytes, start: int, stop: int, spans: Spans) -> None:
    single = {BYTES: DELIMITED, FLOAT: FIXED32, INT64: VARINT}[spans.kind]
    for number, wire_type, begin, end in fields(data, start, stop):
        if number != 1 or wire_type not in (single, DELIMITED):
            continue
        if spans.kind == FLOAT and (end - begin) % 4:
            raise MalformedError(f"{end - begin} bytes at {begin} are no floats")
        if spans.kind == INT64:
            check_varints(data[begin:end], begin)
        spans.places.append((begin, end))
        spans.are_free &= wire_type != VARINT
