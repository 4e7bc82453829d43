"""Row numbers: nodes whose rows can be looked up, in the order of their numbers.

To shuffle, repeat, slice or shard such rows is to do so with their numbers.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import INFINITE, Epoch, Node, SourceNode
from mirrax.data.plan.streams import (
    DelayingStream,
    NumberedStream,
    SourceStream,
    Stream,
    take_up_to,
)

Numbers = np.ndarray[Any, np.dtype[np.int64]]
OpenSource = Callable[[Epoch], Stream]


class IndexedNode(Node):
    """A node whose elements can be looked up by number, in any order."""

    @property
    def chunk(self) -> int:
        """How many elements to look up at once when they are used one by one."""
        return 256

    @property
    def has_indices(self) -> bool:
        """Whether the elements have numbers."""
        return True

    def indices(self, epoch: Epoch) -> Stream:
        """Returns the numbers of the elements in order, as one column."""
        is_infinite = self.cardinality == INFINITE
        return _SequentialIndices(sys.maxsize if is_infinite else self.cardinality)

    @abc.abstractmethod
    def look_up(self, numbers: Numbers) -> Columns:
        """Returns the elements with these numbers."""

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _IndexedStream(self.indices(epoch), self)


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


class _IndexedStream(SourceStream, DelayingStream):
    """Elements in the order of their numbers."""

    _node: IndexedNode

    def __init__(self, source: Stream, node: IndexedNode) -> None:
        super().__init__(source, node)
        self.structure = node.structure
        self.chunk = node.chunk

    @override
    def _take(self, limit: int) -> Columns | None:
        numbers = take_numbers(self._source, limit)
        if not len(numbers):
            return None
        try:
            return self._node.look_up(numbers)
        except Exception:
            if len(numbers) == 1:
                raise
            one_by_one = (self._node.look_up(number[None]) for number in numbers)
            return cols.concatenate(self._until_error(one_by_one))


class _SequentialIndices(NumberedStream):
    """All numbers below `count`, in order."""

    chunk = 1 << 14

    def __init__(self, count: int) -> None:
        self._end = count

    @override
    def take(self, limit: int) -> Columns | None:
        start = self._next
        self._next = min(start + limit, self._end)
        return [np.arange(start, self._next)] if start < self._next else None


def take_numbers(indices: Stream, limit: int) -> Numbers:
    """Returns the next `limit` numbers, fewer only at the end."""
    pieces = [numbers for (numbers,) in take_up_to(indices, limit)]
    return np.concatenate([np.zeros(0, np.int64), *pieces])
