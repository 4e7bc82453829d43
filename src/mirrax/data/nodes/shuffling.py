"""`shuffle`, of elements or of row numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import Epoch
from mirrax.data.plan.row_numbers import OpenSource, OrderingNode, take_numbers
from mirrax.data.plan.seeds import Seeded, random_for
from mirrax.data.plan.streams import ReplayedStream, Stream, take_up_to


@dataclasses.dataclass(frozen=True, eq=False)
class Shuffle(OrderingNode, Seeded):
    """Elements in random order."""

    only_reorders = True

    buffer_size: int
    seed: int
    reshuffle: bool
    is_unseeded: bool = dataclasses.field(default=False, repr=False)

    @override
    def reorder(self, open_source: OpenSource, epoch: Epoch) -> Stream:
        source, seed = open_source(epoch), self._seed(epoch)
        if self.has_indices:
            return _ShuffledIndices(source, self.buffer_size, seed)
        return _ShuffledStream(source, self.buffer_size, seed)

    def _seed(self, epoch: Epoch) -> tuple[int, ...]:
        return (self.seed, *epoch) if self.reshuffle else (self.seed,)


class _ShuffledStream(ReplayedStream):
    """Elements in random order: each new one is exchanged for one of a buffer.

    The new one counts as part of the buffer, and can be drawn itself.
    """

    def __init__(self, source: Stream, buffer_size: int, seed: tuple[int, ...]) -> None:
        self._source = source
        self._size = buffer_size
        self._random = random_for(*seed)
        self._buffer: list[Any] = []
        self._has_ended = False
        # The last elements, once the source has ended.
        self._rest: Any = ()
        self._num_given = 0

    @override
    def _take(self, limit: int) -> Columns | None:
        if not self._has_ended:
            if not self._buffer:
                self._buffer = self._read(self._size - 1)
            drawn = self._draw(self._read(limit))
            if len(drawn) < limit:
                self._has_ended = True
                self._rest, self._buffer = self._shuffled(self._buffer), []
            if drawn:
                return self._columns_of(drawn)
        given = self._rest[self._num_given : self._num_given + limit]
        self._num_given += len(given)
        return self._columns_of(given) if len(given) else None

    def _draw(self, new: list[Any]) -> list[Any]:
        """Exchanges new elements for random ones, and returns these."""
        buffer, drawn = self._buffer, []
        buffer.append(None)
        slots = self._random.integers(0, len(buffer), len(new)).tolist()
        for slot, item in zip(slots, new, strict=True):
            buffer[-1] = item
            drawn.append(buffer[slot])
            buffer[slot] = item
        buffer.pop()
        return drawn

    def _read(self, count: int) -> list[Any]:
        parts = take_up_to(self._source, count)
        self.structure = self._source.structure
        return [row for columns in parts for row in cols.rows_of(columns)]

    def _shuffled(self, items: list[Any]) -> Any:
        order = self._random.permutation(len(items))
        return [items[place] for place in order.tolist()]

    def _columns_of(self, items: Any) -> Columns:
        return cols.from_rows(items)


class _ShuffledIndices(_ShuffledStream):
    chunk = 1 << 14

    @override
    def _read(self, count: int) -> list[Any]:
        return take_numbers(self._source, count).tolist()

    @override
    def _shuffled(self, items: list[Any]) -> Any:
        return self._random.permutation(np.array(items, np.int64))

    @override
    def _columns_of(self, items: Any) -> Columns:
        return [np.array(items, np.int64)]
