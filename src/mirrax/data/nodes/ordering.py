"""Which elements come, and how often: `repeat`, `shard`, `take` and `skip`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from mirrax.data.nodes.combining import ConsecutiveStream
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.indexed import IndexedNode
from mirrax.data.plan.node import (
    INFINITE,
    UNKNOWN,
    CountedStream,
    Epoch,
    Node,
    SourceStream,
    Stream,
)

OpenSource = Callable[[Epoch], Stream]


class OrderingNode(IndexedNode):
    """A node that reorders its source: its row numbers, if it has any."""

    stream: ClassVar[type[SourceStream]]

    source: Node

    def reorder(self, open_source: OpenSource, epoch: Epoch) -> Stream:
        """Returns the source's elements, or their numbers, in the new order."""
        return self.stream(open_source(epoch), self)

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
        return ConsecutiveStream(
            lambda i: open_source((*epoch, i)), self.count, ends_when_empty=True
        )

    @property
    @override
    def cardinality(self) -> int:
        inner = self.source.cardinality
        if self.count == 0 or inner == 0:
            return 0
        if self.count is None or inner == INFINITE:
            return INFINITE
        return UNKNOWN if inner == UNKNOWN else inner * self.count


class _ShardStream(CountedStream):
    _node: Shard

    @override
    def take(self, limit: int) -> Columns | None:
        step = self._node.num_shards
        while (columns := self._source.take(limit * step)) is not None:
            self.structure = self._source.structure
            start = (self._node.index - self._count) % step
            self._count += cols.num_rows(columns)
            own = cols.select(columns, slice(start, None, step))
            if cols.num_rows(own):
                return own
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class Shard(OrderingNode):
    """Every `num_shards`th element."""

    stream = _ShardStream

    source: Node
    num_shards: int
    index: int

    @property
    @override
    def cardinality(self) -> int:
        inner = self.source.cardinality
        return inner if inner < 0 else -(-(inner - self.index) // self.num_shards)


class _LimitStream(CountedStream):
    _node: Limit

    @override
    def take(self, limit: int) -> Columns | None:
        start, count = self._node.start, self._node.count
        while self._count < start:
            skipped = self._source.take(start - self._count)
            self._count += (
                start - self._count if skipped is None else cols.num_rows(skipped)
            )
        if count is not None:
            limit = min(limit, start + count - self._count)
        columns = self._source.take(limit) if limit > 0 else None
        self.structure = self._source.structure
        if columns is not None:
            self._count += cols.num_rows(columns)
        return columns


@dataclasses.dataclass(frozen=True, eq=False)
class Limit(OrderingNode):
    """Elements from `start` on, at most `count` of them."""

    stream = _LimitStream

    source: Node
    start: int
    count: int | None

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
