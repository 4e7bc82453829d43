"""Which elements come, and when: `repeat`, `shard`, `take`, `skip` and `shuffle`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.nodes.combining import ConsecutiveStream
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.indexed import IndexedNode, take_numbers
from mirrax.data.plan.node import (
    INFINITE,
    UNKNOWN,
    Epoch,
    ReplayedStream,
    SourceNode,
    SourceStream,
    Stream,
    skip_up_to,
    take_up_to,
)
from mirrax.data.plan.seeds import Seeded, random_for

OpenSource = Callable[[Epoch], Stream]


class OrderingNode(IndexedNode, SourceNode):
    """A node that reorders its source: its row numbers, if it has any."""

    keeps_batch_size = True

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


@dataclasses.dataclass(frozen=True, eq=False)
class Repeat(OrderingNode):
    """Repeats the elements; without a count, forever."""

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


@dataclasses.dataclass(frozen=True, eq=False)
class Shuffle(OrderingNode, Seeded):
    """Elements in random order."""

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
