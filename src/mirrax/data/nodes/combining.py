"""`zip` and `concatenate`."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
from typing_extensions import override

from mirrax.data.nodes.buffered import BufferedStream
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import (
    INFINITE,
    UNKNOWN,
    Epoch,
    Node,
    State,
    Stream,
    as_count,
    require_same_structure,
)
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Zip(Node):
    """Elements of several datasets side by side."""

    sources: tuple[Node, ...]
    nesting: Any = dataclasses.field(repr=False)

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _ZipStream([node.open(epoch) for node in self.sources], self.nesting)

    @property
    @override
    def spec(self) -> Any:
        return jax.tree.unflatten(self.nesting, [node.spec for node in self.sources])

    @property
    @override
    def cardinality(self) -> int:
        sizes = [node.cardinality for node in self.sources]
        finite = [size for size in sizes if size != INFINITE]
        if not finite:
            return INFINITE
        return UNKNOWN if UNKNOWN in finite else min(finite)


class _ZipStream(Stream):
    def __init__(self, sources: list[Stream], nesting: Any) -> None:
        self._sources = [BufferedStream(source) for source in sources]
        self._nesting = nesting
        self.chunk = min(source.chunk for source in sources)

    @override
    def take(self, limit: int) -> Columns | None:
        count = limit
        for source in self._sources:
            # Each reads only as many as those before it have.
            count = min(count, source.fill(count))
            if not count:
                return None
        taken = [source.take_buffered(count) for source in self._sources]
        inner = [
            jax.tree.unflatten(source.structure, [0] * len(columns))
            for source, columns in zip(self._sources, taken, strict=True)
        ]
        self.structure = jax.tree.structure(jax.tree.unflatten(self._nesting, inner))
        return list(itertools.chain(*taken))

    @override
    def state(self) -> State:
        return [source.state() for source in self._sources]

    @override
    def restore(self, state: State) -> None:
        for source, inner in zip(self._sources, state, strict=True):
            source.restore(inner)


@dataclasses.dataclass(frozen=True, eq=False)
class Concatenate(Node):
    """One dataset after another."""

    sources: tuple[Node, ...]

    @override
    def open(self, epoch: Epoch) -> Stream:
        return ConsecutiveStream(
            lambda i: self.sources[i].open(epoch), len(self.sources)
        )

    @property
    @override
    def spec(self) -> Any:
        return common_spec([node.spec for node in self.sources])

    @property
    @override
    def cardinality(self) -> int:
        sizes = [node.cardinality for node in self.sources]
        if INFINITE in sizes:
            return INFINITE
        return UNKNOWN if UNKNOWN in sizes else sum(sizes)


def common_spec(specs: Sequence[Any]) -> Any:
    """Merges specs: dimensions that differ become unknown.

    Those of datasets without elements may be None.
    """
    known = [spec for spec in specs if spec is not None]
    return jax.tree.map(_common_leaf, *known) if known else None


def _common_leaf(first: TensorSpec, *rest: TensorSpec) -> TensorSpec:
    shape: Any = first.shape
    for other in rest:
        if shape is None or other.shape is None or len(other.shape) != len(shape):
            shape = None
        else:
            shape = tuple(
                a if a == b else None for a, b in zip(shape, other.shape, strict=True)
            )
    return TensorSpec(shape, first.dtype)


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
