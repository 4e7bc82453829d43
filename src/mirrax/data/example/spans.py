"""Parses an example in two steps: the offsets of values, then the values."""

import dataclasses

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

_SINGLE = {BYTES: DELIMITED, FLOAT: FIXED32, INT64: VARINT}


@dataclasses.dataclass(slots=True)
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


def read_example(data: bytes, what: str) -> dict[str, Spans]:
    """Returns where the values of each feature are; `what` is for messages."""
    found: dict[str, Spans] = {}
    try:
        for number, wire_type, start, stop in fields(data, 0, len(data)):
            if number == 1 and wire_type == DELIMITED:
                _read_features(data, start, stop, found)
    except MalformedError as error:
        raise DataLossError(
            "Could not parse example input: it must be a serialized "
            f"`tf.train.Example`. Received: {what}: {error}. Use what "
            "`SerializeToString()` returned, or parse with another function."
        ) from None
    return found


def values_of(data: bytes, spans: Spans | None) -> tuple[int, Array]:
    """Returns the kind of values, 0 for none, and the values."""
    if spans is None or not spans.kind:
        return 0, np.empty(0)
    if spans.kind == BYTES:
        return BYTES, as_objects([data[a:b] for a, b in spans.places])
    joined = b"".join([data[start:stop] for start, stop in spans.places])
    return spans.kind, decode_numbers(joined, spans.kind)


def _read_features(data: bytes, start: int, stop: int, found: dict[str, Spans]) -> None:
    for number, wire_type, begin, end in fields(data, start, stop):
        if number == 1 and wire_type == DELIMITED:
            name, spans = _read_entry(data, begin, end)
            found[name] = spans  # as in any Protobuf map, the last of a name counts


def _read_entry(data: bytes, start: int, stop: int) -> tuple[str, Spans]:
    name, spans = "", None
    for number, wire_type, begin, end in fields(data, start, stop):
        if wire_type != DELIMITED:
            continue
        if number == 1:
            try:
                name = data[begin:end].decode()
            except UnicodeDecodeError:
                raise MalformedError(f"the name at {begin} is not UTF-8") from None
        elif number == 2:
            spans = _read_feature(data, begin, end, spans)
    return name, spans or Spans()


def _read_feature(
    data: bytes, start: int, stop: int, spans: Spans | None
) -> Spans | None:
    for kind, wire_type, begin, end in fields(data, start, stop):
        if kind in DTYPES and wire_type == DELIMITED:
            if spans is None or kind != spans.kind:
                spans = Spans(kind)
            _read_places(data, begin, end, spans)
    return spans


def _read_places(data: bytes, start: int, stop: int, spans: Spans) -> None:
    single = _SINGLE[spans.kind]
    for number, wire_type, begin, end in fields(data, start, stop):
        if number != 1 or wire_type not in (DELIMITED, single):
            continue
        if spans.kind == FLOAT and (end - begin) % 4:
            raise MalformedError(f"{end - begin} bytes at {begin} are no floats")
        if spans.kind == INT64:
            check_varints(data[begin:end], begin)
        if wire_type == VARINT:
            spans.are_free = False
        spans.places.append((begin, end))
