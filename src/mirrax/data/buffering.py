"""Keeping elements: caches, and reading ahead."""

from __future__ import annotations

import dataclasses
from typing import Any

from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.plan import Epoch, Node, ReplayedStream, Stream


class Memory:
    """Elements that were read once, as columns."""

    def __init__(self) -> None:
        self.columns: Columns | None = None
        self.structure: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class Cache(Node):
    """Elements that are read once and then kept in memory."""

    source: Node
    memory: Memory = dataclasses.field(default_factory=Memory, repr=False)

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _CacheStream(self, epoch)

    @property
    @override
    def spec(self) -> Any:
        return self.source.spec

    @property
    @override
    def cardinality(self) -> int:
        return self.source.cardinality


class _CacheStream(ReplayedStream):
    """Reads from the source until its end, and from memory from then on."""

    def __init__(self, node: Cache, epoch: Epoch) -> None:
        self._memory = node.memory
        self._source = None if node.memory.structure else node.source.open(epoch)
        self._read: list[Columns] = []
        self.structure = node.memory.structure

    @override
    def _take(self, limit: int) -> Columns | None:
        if self._source is None:
            if self._memory.columns is None:
                return None
            span = slice(self._taken, self._taken + limit)
            found = cols.select(self._memory.columns, span)
            return found if cols.num_rows(found) else None
        columns = self._source.take(limit)
        self.structure = self._source.structure
        if columns is not None:
            self._read.append(columns)
        elif self._memory.structure is None:
            self._memory.columns = cols.concatenate(self._read) if self._read else None
            self._memory.structure = self.structure
        return columns


@dataclasses.dataclass(frozen=True, eq=False)
class Prefetch(Node):
    """Says how far to read ahead; whoever feeds devices does it, for the whole plan."""

    source: Node
    buffer_size: int

    @override
    def open(self, epoch: Epoch) -> Stream:
        return self.source.open(epoch)

    @property
    @override
    def spec(self) -> Any:
        return self.source.spec

    @property
    @override
    def cardinality(self) -> int:
        return self.source.cardinality
