"""Which elements come, and when: `repeat`, `shard`, `take`, `skip` and `shuffle`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from mirrax.data.nodes.combining import ConsecutiveStream
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.indexed import IndexedNode, Numbers, take_numbers
from mirrax.data.plan.node import (
    INFINITE,
    UNKNOWN,
    CountedStream,
    Epoch,
    Node,
    ReplayedStream,
    SourceStream,
    Stream,
    take_up_to,
)
from mirrax.data.plan.seeds import Seeded, random_for

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


@dataclasses.dataclass(frozen=True, eq=False)
class HintedShard(OrderingNode):
    """The place of a `Shard` whose worker is not known yet."""

    source: Node

    @property
    @override
    def cardinality(self) -> int:
        return UNKNOWN

    @override
    def reorder(self, open_source: OpenSource, epoch: Epoch) -> Stream:
        raise RuntimeError(
            "`shard(SHARD_HINT, SHARD_HINT)` stands for the shard of a worker, which a "
            "strategy fills in. Received: a dataset that is not distributed, or whose "
            "auto-shard policy is not HINT. Use AutoShardPolicy.HINT, or give the "
            "number of shards and the index."
        )


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


class ShuffledIndices(ReplayedStream):
    """Numbers in random order: each is drawn from a buffer that is then refilled."""

    def __init__(self, source: Stream, buffer_size: int, seed: tuple[int, ...]) -> None:
        self._source = source
        self._size = buffer_size
        self._random = random_for(*seed)
        self._buffer: list[int] | None = None
        self._rest: Numbers | None = None

    @override
    def _take(self, limit: int) -> Columns | None:
        numbers = self._next_numbers(limit)
        return [numbers] if len(numbers) else None

    def _next_numbers(self, limit: int) -> Numbers:
        if self._buffer is None:
            self._buffer = take_numbers(self._source, self._size).tolist()
        if self._rest is not None:
            return self._from_rest(limit)
        new = take_numbers(self._source, limit).tolist()
        drawn = self._draw(new)
        if len(new) == limit:
            return drawn
        self._rest = np.array(self._buffer, np.int64)
        self._rest = self._rest[self._random.permutation(len(self._rest))]
        return np.concatenate([drawn, self._from_rest(limit - len(drawn))])

    def _draw(self, new: list[int]) -> Numbers:
        """Replaces random numbers in the buffer by new ones, and returns them."""
        assert self._buffer is not None
        buffer, drawn = self._buffer, []
        slots = self._random.integers(0, max(len(buffer), 1), len(new)).tolist()
        for slot, number in zip(slots, new, strict=True):
            drawn.append(buffer[slot])
            buffer[slot] = number
        return np.array(drawn, np.int64)

    def _from_rest(self, limit: int) -> Numbers:
        assert self._rest is not None
        taken, self._rest = self._rest[:limit], self._rest[limit:]
        return taken


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
