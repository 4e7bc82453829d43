"""`repeat`, and streams one after another."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable

from typing_extensions import override

from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import INFINITE, UNKNOWN, Epoch
from mirrax.data.plan.row_numbers import OpenSource, OrderingNode
from mirrax.data.plan.streams import State, Stream, as_count, require_same_structure


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


class ConsecutiveStream(Stream):
    """The elements of `open_source(i)` for each `i` below `count`, or without end.

    Args:
        ends_when_empty: Whether it ends when a source after the first has no elements.
    """

    def __init__(
        self,
        open_source: Callable[[int], Stream],
        count: int | None,
        ends_when_empty: bool = False,
    ) -> None:
        self._open_source = open_source
        self._count = count
        self._ends_when_empty = ends_when_empty
        self._open(0)

    @override
    def take(self, limit: int) -> Columns | None:
        is_fresh = False
        while self._count != 0:
            columns = self._source.take(limit)
            if columns is not None:
                self.structure = require_same_structure(
                    self.structure,
                    self._source.structure,
                    "Datasets that come one after another",
                )
                return columns
            if is_fresh or self._index + 1 == self._count:
                break
            is_fresh = self._ends_when_empty
            self._open(self._index + 1)
        return None

    @override
    def state(self) -> State:
        return [self._index, self._source.state()]

    @override
    def restore(self, state: State) -> None:
        index, inner = state
        last = sys.maxsize if self._count is None else max(self._count - 1, 0)
        self._open(as_count(index, last))
        self._source.restore(inner)

    def _open(self, index: int) -> None:
        self._index = index
        self._source = self._open_source(index)
