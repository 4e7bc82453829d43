"""A fast parser of examples in the canonical encoding."""

from mirrax.data.example.features import BYTES, DTYPES, FLOAT, INT64
from mirrax.data.example.protobuf import (
    DELIMITED,
    MalformedError,
    check_varints,
    read_varint,
)
from mirrax.data.example.spans import Spans, parse_error, read_example


def spans_of(record: bytes, index: int) -> dict[str, Spans]:
    """Returns where the values of each feature of an example are."""
    try:
        return read_canonical_example(record) or read_example(record)
    except MalformedError as error:
        raise parse_error(f"example {index} of {len(record)} bytes", error) from None


def read_canonical_example(data: bytes) -> dict[str, Spans] | None:
    """A faster `read_example`; returns None for a non-canonical example.

    Canonical: each field once and in order, numbers packed.
    """
    found: dict[str, Spans] = {}
    size = len(data)
    try:
        start, stop = _enter(data, 0, 0x0A)
        if stop != size:
            return None
        while start < size:
            start, entry_stop = _enter(data, start, 0x0A)
            start, stop = _enter(data, start, 0x0A)
            name = data[start:stop].decode()
            start, stop = _enter(data, stop, 0x12)
            if stop != entry_stop or stop > size:
                return None
            found[name] = _read_canonical_feature(data, start, stop)
            start = stop
    except (IndexError, UnicodeDecodeError, MalformedError):
        return None
    return found


def _read_canonical_feature(data: bytes, start: int, stop: int) -> Spans:
    if start == stop:
        return Spans()
    kind = data[start] >> 3
    start, list_stop = _enter(data, start, kind << 3 | DELIMITED)
    if kind not in DTYPES or list_stop != stop:
        raise MalformedError
    spans = Spans(kind)
    while start < stop:
        start, end = _enter(data, start, 0x0A)
        spans.places.append((start, end))
        start = end
    if start != stop or (kind != BYTES and len(spans.places) > 1):
        raise MalformedError
    if kind == FLOAT and spans.places and (end - spans.places[0][0]) % 4:
        raise MalformedError
    if kind == INT64 and spans.places:
        check_varints(data[slice(*spans.places[0])], 0)
    return spans


def _enter(data: bytes, position: int, tag: int) -> tuple[int, int]:
    """Returns start and stop of the field at a position, if it has the tag."""
    if data[position] != tag:
        raise MalformedError
    size = data[position + 1]
    if size < 0x80:
        start = position + 2
    else:
        size, start = read_varint(data, position + 1, len(data))
    return start, start + size
