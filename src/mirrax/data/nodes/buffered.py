"""Streams that read chunks of their source, and keep what was not used yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import State, Stream, skip
from mirrax.data.thread_pool import Future, Pool, wait_for

Chunk = tuple[Columns | None, State, Any]


class BufferedStream(Stream):
    """The elements of a source, which is read in chunks.

    The position is that before the chunk, and how many of its elements were used; that
    after the chunk once all were.
    After an error every call raises it again, also after its position is restored.
    """

    def __init__(self, source: Stream, chunk: int = 1) -> None:
        self.chunk = chunk
        self._source = source
        # The source's positions around the chunk.
        self._before = self._after = source.state()
        self._columns: Columns = []
        self._count = 0
        self._used = 0
        self._error: Exception | None = None

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
                columns, after, self.structure = self._read(limit)
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


class ReadAhead(BufferedStream):
    """A buffered stream of `interleave`, which may read its next chunk in advance.

    Args:
        size: How many elements to read at least at once.
        pool: Threads that read the next chunk in advance, if any.
    """

    def __init__(self, source: Stream, size: int = 1, pool: Pool | None = None) -> None:
        super().__init__(source)
        self._size = size
        self._pool = pool
        self._pending: Future | None = None

    def start(self) -> None:
        """Starts reading in advance, if there are threads."""
        if self._pool is not None:
            self._pending = self._pool.submit(read_chunk, self._source, self._size)

    @property
    def columns(self) -> Columns:
        """The buffered elements."""
        return self._columns

    @override
    def _read(self, size: int) -> Chunk:
        if self._pending is None:
            chunk = super()._read(max(size, self._size))
        else:
            # Kept after a Ctrl-C, so that no element is lost.
            wait_for([self._pending])
            pending, self._pending = self._pending, None
            chunk = pending.result()
        if chunk[0] is not None:
            self.start()
        return chunk


def take_rounds(streams: Sequence[ReadAhead], block: int, limit: int) -> Columns | None:
    """Returns complete rounds of blocks of all streams.

    None if not every stream has a buffered block, or shapes or dtypes differ.
    """
    count = limit // (len(streams) * block)
    if count:
        count = min(count, min(map(_fill_before_error, streams)) // block)
    if not count or not _are_alike([stream.columns for stream in streams]):
        return None
    taken = [stream.take_buffered(count * block) for stream in streams]
    return [_in_turn(column, block) for column in zip(*taken, strict=True)]


def _fill_before_error(stream: ReadAhead) -> int:
    try:
        return stream.fill()
    except Exception:
        return 0


def _are_alike(several: Sequence[Columns]) -> bool:
    kinds = {tuple(_kind(column) for column in columns) for columns in several}
    return len(kinds) == 1 and None not in next(iter(kinds))


def _kind(column: cols.Column) -> Any:
    is_array = isinstance(column, np.ndarray)
    return (column.shape[1:], column.dtype) if is_array else None


def _in_turn(several: Sequence[Any], block: int) -> np.ndarray[Any, Any]:
    shape = several[0].shape[1:]
    blocks = [column.reshape(-1, block, *shape) for column in several]
    return np.stack(blocks, axis=1).reshape(-1, *shape)
