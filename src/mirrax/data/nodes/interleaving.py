"""Datasets made of elements, in turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.plan import (
    UNKNOWN,
    Epoch,
    Node,
    ReplayedStream,
    Stream,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Interleave(Node):
    """The elements of the datasets that a function makes of elements, in turn.

    Args:
        source: The elements.
        function: Makes a node of an element.
        cycle_length: How many datasets take turns.
        block_length: How many elements each gives at its turn.
    """

    source: Node
    function: Callable[..., Node]
    cycle_length: int
    block_length: int

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _InterleaveStream(self, epoch)

    @property
    @override
    def spec(self) -> Any:
        first = self.first()
        return None if first is None else first.spec

    def first(self) -> Node | None:
        """Returns what the function makes of the first element."""
        stream = self.source.open((0,))
        columns = stream.take(1)
        if columns is None:
            return None
        node: Node = cols.call(
            self.function, stream.structure, cols.rows_of(columns)[0]
        )
        return node

    @property
    @override
    def cardinality(self) -> int:
        return UNKNOWN


class _InterleaveStream(ReplayedStream):
    def __init__(self, node: Interleave, epoch: Epoch) -> None:
        self._node = node
        self._epoch = epoch
        self._source = node.source.open(epoch)
        self._open: list[Stream | None] = []
        self._turn = 0
        self._given = 0

    @override
    def _take(self, limit: int) -> Columns | None:
        while True:
            stream = self._current()
            if stream is None:
                return None
            wanted = min(limit, self._node.block_length - self._given)
            columns = stream.take(wanted)
            if columns is None:
                self._open[self._turn] = self._next_stream()
                if self._open[self._turn] is None:
                    del self._open[self._turn]
                    self._turn = self._turn % max(len(self._open), 1)
                    self._given = 0
                    continue
                self._advance()
                continue
            self.structure = stream.structure
            self._given += cols.num_rows(columns)
            if self._given == self._node.block_length:
                self._advance()
            return columns

    def _current(self) -> Stream | None:
        while len(self._open) < self._node.cycle_length:
            stream = self._next_stream()
            if stream is None:
                break
            self._open.append(stream)
        return self._open[self._turn] if self._open else None

    def _advance(self) -> None:
        self._turn = (self._turn + 1) % len(self._open)
        self._given = 0

    def _next_stream(self) -> Stream | None:
        columns = self._source.take(1)
        if columns is None:
            return None
        row = cols.rows_of(columns)[0]
        node: Node = cols.call(self._node.function, self._source.structure, row)
        return node.open(self._epoch)
