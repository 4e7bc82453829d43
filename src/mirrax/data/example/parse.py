"""From serialized examples to arrays.

Examples of the same length mostly differ in their values only, so a value is at the
same offset in all of them: they are parsed at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mirrax.data.example.features import BYTES, INT64, AnyFeature, Array, FeatureColumn
from mirrax.data.example.protobuf import MalformedError, check_varints, decode_numbers
from mirrax.data.example.spans import Spans, read_example, values_of

# Fewer records are as fast one by one.
_MIN_RECORDS_AT_ONCE = 4


def parse_example(
    serialized: Sequence[bytes], features: Mapping[str, AnyFeature]
) -> dict[str, Any]:
    """Returns the features of a batch of serialized examples.

    A `FixedLenFeature` gives one array with a row for each example, a `VarLenFeature`
    a list with an array for each. Strings are arrays of bytes objects.

    >>> import numpy as np
    >>> from mirrax.data.example import Example, Feature, Features
    >>> from mirrax.data.example import FixedLenFeature, Int64List
    >>> feature = {"x": Feature(int64_list=Int64List(value=[7]))}
    >>> record = Example(features=Features(feature=feature)).SerializeToString()
    >>> parse_example([record, record], {"x": FixedLenFeature((), np.int64)})
    {'x': array([7, 7])}

    Raises:
        ValueError: An example does not have the features.
        DataLossError: Bytes that are no example.
    """
    records = _check_serialized(serialized)
    columns = [FeatureColumn(name, f, len(records)) for name, f in features.items()]
    for index in _parse_same_layout(records, columns):
        found = _spans_of(records, index)
        for column in columns:
            column.put_one(index, *values_of(records[index], found.get(column.name)))
    return {column.name: column.result() for column in columns}


def parse_single_example(
    serialized: bytes, features: Mapping[str, AnyFeature]
) -> dict[str, Any]:
    """Returns the features of one serialized example, as `parse_example` does.

    >>> from mirrax.data.example import BytesList, Example, Feature, Features
    >>> from mirrax.data.example import VarLenFeature
    >>> feature = {"x": Feature(bytes_list=BytesList(value=[b"a", b"b"]))}
    >>> record = Example(features=Features(feature=feature)).SerializeToString()
    >>> parse_single_example(record, {"x": VarLenFeature(bytes)})
    {'x': array([b'a', b'b'], dtype=object)}
    """
    parsed = parse_example([serialized], features)
    return {name: rows[0] for name, rows in parsed.items()}


def _check_serialized(serialized: Any) -> list[bytes]:
    if isinstance(serialized, bytes | str):
        raise TypeError(
            "A batch must be a sequence of serialized examples. Received: "
            f"{type(serialized).__name__}. Use `parse_single_example`."
        )
    records = list(serialized)
    for index, record in enumerate(records):
        if not isinstance(record, bytes):
            raise TypeError(
                "A serialized example must be bytes. Received: "
                f"{type(record).__name__} at index {index}. "
                "Use what `SerializeToString()` returned."
            )
    return records


def _parse_same_layout(
    records: list[bytes], columns: Sequence[FeatureColumn]
) -> list[int]:
    """Parses examples of a common layout; returns the indices of the others."""
    groups: dict[int, list[int]] = {}
    for index, record in enumerate(records):
        groups.setdefault(len(record), []).append(index)
    others: list[int] = []
    for group in groups.values():
        if len(group) < _MIN_RECORDS_AT_ONCE:
            others += group
            continue
        indices = np.array(group)
        others += indices[~_parse_group(records, indices, columns)].tolist()
    return sorted(others)


def _parse_group(
    records: list[bytes], indices: Array, columns: Sequence[FeatureColumn]
) -> Array:
    """Parses the examples with the first one's layout; returns a mask of them."""
    nothing = np.zeros(len(indices), bool)
    first = records[indices[0]]
    found = _spans_of(records, indices[0])
    group = [records[index] for index in indices.tolist()]
    table = np.frombuffer(b"".join(group), np.uint8).reshape(len(group), len(first))
    frame = _frame_of(len(first), found.values())
    is_alike: Array = (table[:, frame] == table[0, frame]).all(1)
    if not is_alike.all():
        indices = indices[is_alike]
        group = [records[index] for index in indices.tolist()]
        table = table[is_alike]
    blocks = []
    for column in columns:
        spans = found.get(column.name)
        block = None if spans is None else _block_of(group, table, spans)
        if (
            spans is None
            or block is None
            or not column.fits(spans.kind, block.shape[1])
        ):
            return nothing
        blocks.append(block)
    for column, block in zip(columns, blocks, strict=True):
        column.put_many(indices, block)
    return is_alike


def _spans_of(records: list[bytes], index: int) -> dict[str, Spans]:
    record = records[index]
    return read_example(record, f"example {index} of {len(record)} bytes")


def _frame_of(size: int, features: Iterable[Spans]) -> Array:
    """Returns the offsets of the bytes that all examples of one layout share."""
    is_frame = np.ones(size, bool)
    for spans in features:
        for start, stop in spans.places if spans.are_free else ():
            is_frame[start:stop] = False
    return np.flatnonzero(is_frame)


def _block_of(group: list[bytes], table: Array, spans: Spans) -> Array | None:
    """Returns a row of values for each example; None if their numbers differ."""
    if spans.kind == BYTES:
        block = np.empty((len(group), len(spans.places)), object)
        for i, (start, stop) in enumerate(spans.places):
            block[:, i] = [record[start:stop] for record in group]
        return block
    if not spans.kind or not spans.places:
        return None
    parts = [_numbers_at(table[:, a:b], spans.kind) for a, b in spans.places]
    known = [part for part in parts if part is not None]
    return np.concatenate(known, axis=1) if len(known) == len(parts) else None


def _numbers_at(table: Array, kind: int) -> Array | None:
    data = table.tobytes()
    if kind == INT64 and not data.isascii():
        counts = (table < 0x80).sum(1)
        if (counts != counts[0]).any() or (table[:, -1] >= 0x80).any():
            return None
        try:
            check_varints(data, 0)
        except MalformedError:
            return None
    return decode_numbers(data, kind).reshape(len(table), -1)
