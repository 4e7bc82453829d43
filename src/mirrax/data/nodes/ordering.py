"""Which elements come, and how often."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.indices import (
    Indices,
    LimitedIndices,
    RepeatedIndices,
    StridedIndices,
)
from mirrax.data.node import INFINITE, UNKNOWN, Epoch, Node, State, Stream
from mirrax.data.nodes.indexed import IndexedNode


class OrderingNode(IndexedNode):
    """A node that changes the order of another: in numbers, if that has numbers."""

    source: Node

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

    def _source_indices(self, epoch: Epoch) -> Indices | None:
        return (
            self.source.indices(epoch) if isinstance(self.source, IndexedNode) else None
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Repeat(OrderingNode):
    """Elements again and again; without a count, for ever."""

    source: Node
    count: int | None

    @override
    def indices(self, epoch: Epoch) -> Indices | None:
        if self._source_indices((*epoch, 0)) is None:
            return None

        def open_source(repetition: int) -> Indices:
            indices = self._source_indices((*epoch, repetition))
            assert indices is not None
            return indices

        return RepeatedIndices(open_source, self.count)

    @override
    def _open_rows(self, epoch: Epoch) -> Stream:
        return _RepeatedRows(self, epoch)

    @property
    @override
    def cardinality(self) -> int:
        inner = self.source.cardinality
        if self.count == 0 or inner == 0:
            return 0
        if self.count is None or inner == INFINITE:
            return INFINITE
        return UNKNOWN if inner == UNKNOWN else inner * self.count


class _RepeatedRows(Stream):
    def __init__(self, node: Repeat, epoch: Epoch) -> None:
        self._node = node
        self._epoch = epoch
        self._open(0)

    @override
    def take(self, limit: int) -> Columns | None:
        if self._node.count == 0:
            return None
        is_fresh = False
        while True:
            columns = self._source.take(limit)
            self.structure = self._source.structure
            if columns is not None:
                return columns
            count = self._node.count
            if is_fresh or (count is not None and self._repetition + 1 >= count):
                return None
            is_fresh = True
            self._open(self._repetition + 1)

    @override
    def state(self) -> State:
        return [self._repetition, self._source.state()]

    @override
    def restore(self, state: State) -> None:
        self._open(state[0])
        self._source.restore(state[1])

    def _open(self, repetition: int) -> None:
        self._repetition = repetition
        self._source = self._node.source.open((*self._epoch, repetition))


@dataclasses.dataclass(frozen=True, eq=False)
class Shard(OrderingNode):
    """Every so-manyth element."""

    source: Node
    num_shards: int
    index: int

    @override
    def indices(self, epoch: Epoch) -> Indices | None:
        source = self._source_indices(epoch)
        return source and StridedIndices(source, self.num_shards, self.index)

    @override
    def _open_rows(self, epoch: Epoch) -> Stream:
        return _ShardedRows(self.source.open(epoch), self.num_shards, self.index)

    @property
    @override
    def cardinality(self) -> int:
        inner = self.source.cardinality
        return inner if inner < 0 else -(-(inner - self.index) // self.num_shards)


class _ShardedRows(Stream):
    def __init__(self, source: Stream, num_shards: int, index: int) -> None:
        self._source = source
        self._num_shards = num_shards
        self._index = index
        self._seen = 0

    @override
    def take(self, limit: int) -> Columns | None:
        while (columns := self._source.take(limit * self._num_shards)) is not None:
            self.structure = self._source.structure
            start = (self._index - self._seen) % self._num_shards
            self._seen += cols.num_rows(columns)
            own = cols.select(columns, slice(start, None, self._num_shards))
            if cols.num_rows(own):
                return own
        return None

    @override
    def state(self) -> State:
        return [self._seen, self._source.state()]

    @override
    def restore(self, state: State) -> None:
        self._seen, inner = state
        self._source.restore(inner)


@dataclasses.dataclass(frozen=True, eq=False)
class Limit(OrderingNode):
    """Elements from `start` on, at most `count` of them."""

    source: Node
    start: int
    count: int | None

    @override
    def indices(self, epoch: Epoch) -> Indices | None:
        source = self._source_indices(epoch)
        return source and LimitedIndices(source, self.start, self.count)

    @override
    def _open_rows(self, epoch: Epoch) -> Stream:
        return _LimitedRows(self.source.open(epoch), self.start, self.count)

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


class _LimitedRows(Stream):
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
        self._to_skip, self._left, inner = state
        self._source.restore(inner)
