"""`take`, `skip` and `shard`."""

from __future__ import annotations

import dataclasses

from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import INFINITE, UNKNOWN, Epoch
from mirrax.data.plan.row_numbers import OpenSource, OrderingNode
from mirrax.data.plan.streams import SourceStream, Stream, skip_up_to


class _ShardStream(SourceStream):
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

    num_shards: int
    index: int

    @override
    def count_of(self, inner: int) -> int:
        return -(-(inner - self.index) // self.num_shards)


@dataclasses.dataclass(frozen=True, eq=False)
class HintedShard(OrderingNode):
    """The place of a `Shard` whose worker is not known yet."""

    cardinality = UNKNOWN

    @override
    def reorder(self, open_source: OpenSource, epoch: Epoch) -> Stream:
        raise RuntimeError(
            "`shard(SHARD_HINT, SHARD_HINT)` stands for the shard of a worker, which a "
            "strategy fills in. Received: a dataset that is not distributed, or whose "
            "auto-shard policy is not HINT. Use AutoShardPolicy.HINT, or give the "
            "number of shards and the index."
        )


class _LimitStream(SourceStream):
    _node: Limit

    @override
    def take(self, limit: int) -> Columns | None:
        start, count = self._node.start, self._node.count
        if self._count < start:
            skip_up_to(self._source, start - self._count)
            self._count = start
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
