"""`shuffle`."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.nodes.ordering import OpenSource, OrderingNode
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.indices import ShuffledIndices
from mirrax.data.plan.node import Epoch, Node, ReplayedStream, Stream, take_up_to
from mirrax.data.plan.seeds import Seeded, random_for


@dataclasses.dataclass(frozen=True, eq=False)
class Shuffle(OrderingNode, Seeded):
    """Elements in random order."""

    source: Node
    buffer_size: int
    seed: int
    reshuffle: bool
    is_unseeded: bool = dataclasses.field(default=False, repr=False)

    @override
    def reorder(self, open_source: OpenSource, epoch: Epoch) -> Stream:
        source, seed = open_source(epoch), self._seed(epoch)
        if self.has_indices:
            return ShuffledIndices(source, self.buffer_size, seed)
        return _ShuffledRows(source, self.buffer_size, random_for(*seed))

    @property
    @override
    def cardinality(self) -> int:
        return self.source.cardinality

    def _seed(self, epoch: Epoch) -> tuple[int, ...]:
        return (self.seed, *epoch) if self.reshuffle else (self.seed,)


class _ShuffledRows(ReplayedStream):
    """Shuffles elements without random access, in a buffer."""

    def __init__(self, source: Stream, size: int, random: np.random.Generator) -> None:
        self._source = source
        self._size = size
        self._random = random
        self._buffer: list[Any] = []
        self._has_ended = False

    @override
    def _take(self, limit: int) -> Columns | None:
        rows: list[Any] = []
        while len(rows) < limit:
            self._fill(self._size)
            if not self._buffer:
                break
            place = int(self._random.integers(0, len(self._buffer)))
            self._buffer[place], self._buffer[-1] = (
                self._buffer[-1],
                self._buffer[place],
            )
            rows.append(self._buffer.pop())
        return cols.from_rows(rows) if rows else None

    def _fill(self, size: int) -> None:
        if not self._has_ended:
            for columns in take_up_to(self._source, size - len(self._buffer)):
                self._buffer.extend(cols.rows_of(columns))
            self.structure = self._source.structure
            self._has_ended = len(self._buffer) < size
