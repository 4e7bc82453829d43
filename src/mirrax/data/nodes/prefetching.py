"""`prefetch`."""

from __future__ import annotations

import dataclasses
from typing import Any

from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.node import (
    Epoch,
    SourceNode,
    State,
    Stream,
    has_expensive_node,
    position_error,
)
from mirrax.data.prefetcher import Prefetcher
from mirrax.data.thread_pool import AUTOTUNE

_DEFAULT_SIZE = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Prefetch(SourceNode):
    """Elements that a thread reads in advance, if the source is expensive."""

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
        return _PrefetchStream(stream, self.depth)


class _PrefetchStream(Stream):
    """Prefetches chunks of the size of the first `take`."""

    def __init__(self, source: Stream, depth: int) -> None:
        self._source = _Chunks(source)
        self._prefetcher = Prefetcher(self._source, depth)
        self._before = self._prefetcher.position()
        self._columns: Columns | None = None
        self._used = 0
        self.chunk = source.chunk

    @override
    def take(self, limit: int) -> Columns | None:
        if self._columns is None:
            self._source.size = self._source.size or limit
            self._before = self._prefetcher.position()
            step = self._prefetcher.step()
            if step is None:
                return None
            (self._columns, self.structure), self._used = step, 0
        taken = cols.select(self._columns, slice(self._used, self._used + limit))
        self._used += cols.num_rows(taken)
        if self._used == cols.num_rows(self._columns):
            self._columns = None
        return taken

    @override
    def state(self) -> State:
        if self._columns is None:
            return [self._prefetcher.position(), 0]
        return [self._before, self._used]

    @override
    def restore(self, state: State) -> None:
        before, used = state
        self._prefetcher.seek(before)
        while used:
            taken = self.take(used)
            if taken is None:
                raise position_error(used, 0)
            used -= cols.num_rows(taken)


class _Chunks:
    """The steps of the prefetcher: columns and their structure."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.size = 0

    def step(self) -> tuple[Columns, Any] | None:
        columns = self._stream.take(self.size)
        return None if columns is None else (columns, self._stream.structure)

    def position(self) -> State:
        return self._stream.state()

    def seek(self, position: State) -> None:
        self._stream.restore(position)
