"""Streams that read chunks of their source in advance, and `prefetch`."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import Epoch, SourceNode, has_expensive_node
from mirrax.data.plan.streams import State, Stream, skip
from mirrax.data.thread_pool import AUTOTUNE, Pool, Prefetcher

Chunk = tuple[Columns | None, State, Any]


class BufferedStream(Stream):
    """The elements of a source, which is read in chunks.

    The position is that before the chunk, and how many of its elements were used; that
    after the chunk once all were.
    After an error every call raises it again, also after its position is restored.

    Args:
        size: How many elements to read at least at once.
    """

    def __init__(self, source: Stream, chunk: int = 1, size: int = 1) -> None:
        self.chunk = chunk
        self._source = source
        self._size = size
        # The source's positions around the chunk.
        self._before = self._after = source.state()
        self._columns: Columns = []
        self._count = 0
        self._used = 0
        self._error: Exception | None = None

    @property
    def columns(self) -> Columns:
        """The buffered elements that were not taken yet."""
        return cols.select(self._columns, slice(self._used, None))

    @override
    def take(self, limit: int) -> Columns | None:
        return self.take_buffered(limit) if self.fill(limit) else None

    def take_buffered(self, limit: int) -> Columns:
        """Returns at most `limit` of the buffered elements."""
        start = self._used
        self._used = min(start + limit, self._count)
        return cols.select(self._columns, slice(start, self._used))

    def next_row(self) -> list[Any] | None:
        """Returns the leaves of the next element; None at the end."""
        if self._used == self._count and not self.fill(self._source.chunk):
            return None
        row = [column[self._used] for column in self._columns]
        self._used += 1
        return row

    def fill(self, limit: int = 1) -> int:
        """Reads a chunk if nothing is buffered; returns how many elements are."""
        if self._error is not None:
            raise self._error
        if self._used == self._count:
            # The old chunk is released before the next is read.
            self._columns = []
            try:
                chunk = self._read(max(limit, self._size))
                columns, after, self.structure = chunk
            except Exception as error:
                self._error = error
                raise
            self._before, self._after = self._after, after
            if columns is not None:
                self._columns = columns
                self._count, self._used = cols.num_rows(columns), 0
        return self._count - self._used

    @override
    def state(self) -> State:
        if self._used == self._count:
            return [self._after, 0]
        return [self._before, self._used]

    @override
    def restore(self, state: State) -> None:
        self._error = None
        before, used = state
        self._source.restore(before)
        self._before = self._after = before
        self._count = self._used = 0
        skip(self, used)

    def _read(self, size: int) -> Chunk:
        return read_chunk(self._source, size)


def read_chunk(source: Stream, size: int) -> Chunk:
    """Returns the next elements, the position after them and their structure."""
    return source.take(size), source.state(), source.structure


_DEFAULT_SIZE = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Prefetch(SourceNode):
    """Elements that a thread reads in advance, if the source is expensive."""

    keeps_batch_size = True

    buffer_size: int

    @property
    def depth(self) -> int:
        """How many chunks are read in advance."""
        return _DEFAULT_SIZE if self.buffer_size == AUTOTUNE else self.buffer_size

    @override
    def open(self, epoch: Epoch) -> Stream:
        stream = self.source.open(epoch)
        if not self.depth or not has_expensive_node(self.source):
            return stream
        return PrefetchStream(stream, self.depth)


class PrefetchStream(BufferedStream):
    """A buffered stream whose next chunks a thread reads in advance.

    Args:
        depth: How many chunks wait while the thread reads the next.
        size: How many elements to read at least at once.
        pool: Threads that several streams share, for a depth of 0; by default, one of
            its own.
    """

    def __init__(
        self, source: Stream, depth: int, size: int = 1, pool: Pool | None = None
    ) -> None:
        super().__init__(source, source.chunk, size)
        self._depth = depth
        self._pool = pool
        self._prefetcher: Prefetcher | None = None

    def start(self, size: int = 1) -> Prefetcher:
        """Starts to read chunks of this size, if it is not too small."""
        if self._prefetcher is None:
            size = max(size, self._size)
            read = functools.partial(read_chunk, self._source, size)
            self._prefetcher = Prefetcher(read, self._depth, self._pool)
            self._prefetcher.start()
        return self._prefetcher

    @override
    def _read(self, size: int) -> Chunk:
        return self.start(size).next()
