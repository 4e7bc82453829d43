"""Parses many examples at once.

Examples of the same length mostly differ in their values only, so a value is at the
same offset in all of them.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from mirrax.data.example.fast_path import spans_of
from mirrax.data.example.feature_columns import FeatureColumn
from mirrax.data.example.features import BYTES, INT64, Array
from mirrax.data.example.protobuf import MalformedError, check_varints, decode_numbers
from mirrax.data.example.spans import Spans

# Fewer records are as fast one by one.
_MIN_RECORDS_AT_ONCE = 4


def parse_same_layout(
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
    found = spans_of(first, indices[0])
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
