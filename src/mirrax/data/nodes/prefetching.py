"""Reading ahead of whoever uses the elements."""

from __future__ import annotations

import dataclasses
from typing import Any

from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.node import Epoch, Node, State, Stream, refuse_position, takes_work
from mirrax.data.prefetcher import ReadAhead
from mirrax.data.thread_pool import AUTOTUNE

_DEFAULT_SIZE = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Prefetch(Node):
    """Elements that a thread reads in advance, where that takes work."""

    source: Node
    buffer_size: int

    @property
    def depth(self) -> int:
        """How much is read in advance."""
        return _DEFAULT_SIZE if self.buffer_size == AUTOTUNE else self.buffer_size

    @override
    def open(self, epoch: Epoch) -> Stream:
        stream = self.source.open(epoch)
        if not self.depth or not takes_work(self.source):
            return stream
        return _PrefetchStream(stream, self.depth)

    @property
    @override
    def spec(self) -> Any:
        return self.source.spec

    @property
    @override
    def cardinality(self) -> int:
        return self.source.cardinality


class _PrefetchStream(Stream):
    """As many elements are read at once as were asked for first."""

    def __init__(self, source: Stream, depth: int) -> None:
        self._source = _Chunks(source)
        self._ahead = ReadAhead(self._source, depth)
        self._before = self._ahead.position()
        self._columns: Columns | None = None
        self._used = 0
        self.chunk = source.chunk

    @override
    def take(self, limit: int) -> Columns | None:
        if self._columns is None:
            self._source.size = self._source.size or limit
            self._before = self._ahead.position()
            step = self._ahead.step()
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
            return [self._ahead.position(), 0]
        return [self._before, self._used]

    @override
    def restore(self, state: State) -> None:
        before, used = state
        self._ahead.go_to(before)
        while used:
            taken = self.take(used)
            if taken is None:
                raise refuse_position(used, 0)
            used -= cols.num_rows(taken)


class _Chunks:
    """The steps of whoever reads in advance: some elements, and how they are nested."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.size = 0

    def step(self) -> tuple[Columns, Any] | None:
        columns = self._stream.take(self.size)
        return None if columns is None else (columns, self._stream.structure)

    def position(self) -> State:
        return self._stream.state()

    def go_to(self, position: State) -> None:
        self._stream.restore(position)
