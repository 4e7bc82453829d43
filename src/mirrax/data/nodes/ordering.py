"""Which elements come, and how often: `repeat`, `shard`, `take` and `skip`."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.nodes.indexed import IndexedNode
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import (
    INFINITE,
    UNKNOWN,
    CountedStream,
    Epoch,
    Node,
    State,
    Stream,
    as_count,
)

OpenSource = Callable[[Epoch], Stream]


class OrderingNode(IndexedNode):
    """A node that reorders its source: its row numbers, if it has any."""

    source: Node

    @abc.abstractmethod
    def reorder(self, open_source: OpenSource, epoch: Epoch) -> Stream:
        """Returns the source's elements, or their numbers, in the new order."""

    @property
    @override
    def has_indices(self) -> bool:
        return isinstance(self.source, IndexedNode) and self.source.has_indices

    @override
    def indices(self, epoch: Epoch) -> Stream:
        assert isinstance(self.source, IndexedNode)
        return self.reorder(self.source.indices, epoch)

    @override
    def open(self, epoch: Epoch) -> Stream:
        if self.has_indices:
            return super().open(epoch)
        return self.reorder(self.source.open, epoch)

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        assert isinstance(self.source, IndexedNode)
        return self.source.look_up(numbers)

    @property
    @override
    def chunk(self) -> int:
        return self.source.chunk if isinstance(self.source, IndexedNode) else 1

    @property
    @override
    def spec(self) -> Any:
        return self.source.spec


@dataclasses.dataclass(frozen=True, eq=False)
class Repeat(OrderingNode):
    """Repeats the elements; without a count, forever."""

    source: Node
    count: int | None

    @override
    def reorder(self, open_source: OpenSource, epoch: Epoch) -> Stream:
        return RepeatedStream(lambda i: open_source((*epoch, i)), self.count)

    @property
    @override
    def cardinality(self) -> int:
        inner = self.source.cardinality
        if self.count == 0 or inner == 0:
            return 0
        if self.count is None or inner == INFINITE:
            return INFINITE
        return UNKNOWN if inner == UNKNOWN else inner * self.count


class RepeatedStream(Stream):
    """The elements of `open_source(i)` for each repetition `i`."""

    def __init__(self, open_source: Callable[[int], Stream], count: int | None) -> None:
        self._open_source = open_source
        self._count = count
        self._open(0)

    @override
    def take(self, limit: int) -> Columns | None:
        if self._count == 0:
            return None
        is_fresh = False
        while True:
            columns = self._source.take(limit)
            self.structure = self._source.structure
            if columns is not None:
                return columns
            is_last = self._count is not None and self._repetition + 1 >= self._count
            if is_fresh or is_last:
                return None
            is_fresh = True
            self._open(self._repetition + 1)

    @override
    def state(self) -> State:
        return [self._repetition, self._source.state()]

    @override
    def restore(self, state: State) -> None:
        repetition, inner = state
        self._open(as_count(repetition))
        self._source.restore(inner)

    def _open(self, repetition: int) -> None:
        self._repetition = repetition
        self._source = self._open_source(repetition)


@dataclasses.dataclass(frozen=True, eq=False)
class Shard(OrderingNode):
    """Every `num_shards`th element."""

    source: Node
    num_shards: int
    index: int

    @override
    def reorder(self, open_source: OpenSource, epoch: Epoch) -> Stream:
        return ShardedStream(open_source(epoch), self.num_shards, self.index)

    @property
    @override
    def cardinality(self) -> int:
        inner = self.source.cardinality
        return inner if inner < 0 else -(-(inner - self.index) // self.num_shards)


class ShardedStream(CountedStream):
    """Every `num_shards`th element, from the one at `index` on."""

    def __init__(self, source: Stream, num_shards: int, index: int) -> None:
        self._source = source
        self._num_shards = num_shards
        self._index = index

    @override
    def take(self, limit: int) -> Columns | None:
        while (columns := self._source.take(limit * self._num_shards)) is not None:
            self.structure = self._source.structure
            start = (self._index - self._count) % self._num_shards
            self._count += cols.num_rows(columns)
            own = cols.select(columns, slice(start, None, self._num_shards))
            if cols.num_rows(own):
                return own
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class Limit(OrderingNode):
    """Elements from `start` on, at most `count` of them."""

    source: Node
    start: int
    count: int | None

    @override
    def reorder(self, open_source: OpenSource, epoch: Epoch) -> Stream:
        return LimitedStream(open_source(epoch), self.start, self.count)

    @property
    @override
    def cardinality(self) -> int:
        inner = self.source.cardinality
        if inner == UNKNOWN:
            return UNKNOWN
        if inner == INFINITE:
            return INFINITE if self.count is None else self.count
        left = max(inner - self.start, 0)
        return left if self.count is None else min(left, self.count)


class LimitedStream(Stream):
    """Elements from `start` on, at most `count` of them."""

    def __init__(self, source: Stream, start: int, count: int | None) -> None:
        self._source = source
        self._to_skip = start
        self._left = count

    @override
    def take(self, limit: int) -> Columns | None:
        while self._to_skip:
            skipped = self._source.take(self._to_skip)
            self._to_skip -= (
                self._to_skip if skipped is None else cols.num_rows(skipped)
            )
        if self._left is not None:
            limit = min(limit, self._left)
        columns = self._source.take(limit) if limit else None
        self.structure = self._source.structure
        if columns is not None and self._left is not None:
            self._left -= cols.num_rows(columns)
        return columns

    @override
    def state(self) -> State:
        return [self._to_skip, self._left, self._source.state()]

    @override
    def restore(self, state: State) -> None:
        to_skip, left, inner = state
        self._to_skip = as_count(to_skip)
        self._left = self._left if self._left is None else as_count(left, self._left)
        self._source.restore(inner)
