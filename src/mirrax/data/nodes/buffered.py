"""Buffered streams, used by `zip` and `interleave`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.node import State, Stream
from mirrax.data.thread_pool import Future, Pool, wait_for


class Buffered:
    """A stream with a buffer of the next elements.

    Args:
        stream: The elements.
        pool: Threads that fill the buffer in advance, if any.
    """

    def __init__(self, stream: Stream, pool: Pool | None = None) -> None:
        self._stream = stream
        self._pool = pool
        self._before = stream.state()
        self._columns: Columns | None = None
        self._used = 0
        self._pending: Future | None = None
        self._error: Exception | None = None
        self.structure: Any = None

    def has_rows(self, size: int) -> bool:
        """Returns whether there is another element; raises errors of reading."""
        available = self.num_rows(size)
        if self._error is not None:
            raise self._error
        return available > 0

    def num_rows(self, size: int) -> int:
        """Returns the number of buffered elements; if 0, first reads up to `size`."""
        if self._columns is not None and self._used == cols.num_rows(self._columns):
            self._columns = None
        if self._columns is None and self._error is None:
            try:
                self._read(size)
            except Exception as error:
                self._error = error
        return 0 if self._columns is None else cols.num_rows(self._columns) - self._used

    def take(self, limit: int) -> Columns:
        """Returns at most `limit` buffered elements."""
        assert self._columns is not None
        taken = cols.select(self._columns, slice(self._used, self._used + limit))
        self._used += cols.num_rows(taken)
        return taken

    def state(self) -> State:
        """Returns the position of the next element."""
        return [self._before, self._used]

    def restore(self, state: State) -> None:
        """Restores a position."""
        self._before, used = state
        self._stream.restore(self._before)
        while used and (available := self.num_rows(used)):
            self._used += min(used, available)
            used -= min(used, available)

    def start(self, size: int) -> None:
        """Starts reading in advance, if there are threads."""
        if self._pool is not None:
            self._pending = self._pool.submit(self._next_chunk, size)

    @property
    def columns(self) -> Columns:
        """The buffered elements."""
        return self._columns or []

    def _read(self, size: int) -> None:
        pending = self._pending
        if pending is not None:
            # Kept after a Ctrl-C, so that no element is lost.
            wait_for([pending])
        self._pending = None
        chunk = self._next_chunk(size) if pending is None else pending.result()
        self._before, self._columns, self.structure = chunk
        self._used = 0
        if self._columns is not None:
            self.start(size)

    def _next_chunk(self, size: int) -> tuple[State, Columns | None, Any]:
        before = self._stream.state()
        columns = self._stream.take(size)
        return before, columns, self._stream.structure


def take_rounds(
    streams: Sequence[Buffered], block: int, limit: int, size: int
) -> Columns | None:
    """Returns complete rounds of blocks of all streams.

    None if not every stream has a buffered block, or shapes or dtypes differ.
    """
    count = limit // (len(streams) * block)
    if count:
        count = min(count, *(stream.num_rows(size) // block for stream in streams))
    if not count or not _are_alike([stream.columns for stream in streams]):
        return None
    taken = [stream.take(count * block) for stream in streams]
    return [_in_turn(column, block) for column in zip(*taken, strict=True)]


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
