"""What is done with each element."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.inference import spec_of_function
from mirrax.data.plan import (
    INFINITE,
    UNKNOWN,
    Epoch,
    Node,
    PassingStream,
    ReplayedStream,
    State,
    Stream,
)
from mirrax.data.vectorize import is_pure, vectorized
from mirrax.values.specs import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Map(Node):
    """A function of each element."""

    source: Node
    function: Callable[..., Any]
    vectorize: bool = True

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _MapStream(self, epoch)

    @property
    @override
    def spec(self) -> Any:
        return spec_of_function(self.function, self.source, self)

    @property
    @override
    def cardinality(self) -> int:
        return self.source.cardinality


class _MapStream(Stream):
    def __init__(self, node: Map, epoch: Epoch) -> None:
        self._source = node.source.open(epoch)
        self._function = node.function
        self._vectorize = node.vectorize and is_pure(node.function)
        self._is_proved = False
        self._number = 0
        self._error: Exception | None = None

    @override
    def take(self, limit: int) -> Columns | None:
        if self._error is not None:
            raise self._error
        columns = self._source.take(limit)
        if columns is None:
            return None
        result = self._apply(columns)
        self._number += cols.num_rows(result)
        return result

    @override
    def state(self) -> State:
        return [self._number, self._source.state()]

    @override
    def restore(self, state: State) -> None:
        self._number, inner = state
        self._source.restore(inner)

    def _apply(self, columns: Columns) -> Columns:
        if self._vectorize and cols.num_rows(columns) > 1:
            try:
                structure, result = vectorized(
                    self._function, self._source.structure, columns
                )
                if self._is_proved or self._agrees(columns, result):
                    self.structure, self._is_proved = structure, True
                    return result
            except Exception:
                # Whatever it was, calling it for each element shows it if it is real.
                pass
            self._vectorize = False
        return self._apply_one_by_one(cols.rows_of(columns))

    def _apply_one_by_one(self, rows: Sequence[tuple[Any, ...]]) -> Columns:
        """Returns what the function gives; what comes before an error comes first."""
        results: list[Any] = []
        for row in rows:
            try:
                results.append(self._call(row))
            except Exception as error:
                error.add_note(
                    "[mirrax] raised by a function given to `map`, at element "
                    f"{self._number + len(results)}"
                )
                if not results:
                    raise
                self._error = error
                break
        return cols.from_rows(results)

    def _agrees(self, columns: Columns, result: Columns) -> bool:
        """Returns whether the last row comes out the same on its own."""
        row = cols.rows_of(cols.select(columns, slice(-1, None)))[0]
        own = self._call(row)
        return all(
            np.asarray(leaf).dtype == column.dtype
            and np.array_equal(np.asarray(leaf), column[-1])
            for leaf, column in zip(own, result, strict=True)
        )

    def _call(self, row: tuple[Any, ...]) -> list[Any]:
        result = cols.call(self._function, self._source.structure, row)
        leaves, self.structure = jax.tree.flatten(result)
        return leaves


@dataclasses.dataclass(frozen=True, eq=False)
class Filter(Node):
    """The elements for which a function is true."""

    source: Node
    predicate: Callable[..., Any]

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _FilterStream(self.source.open(epoch), self.predicate)

    @property
    @override
    def spec(self) -> Any:
        return self.source.spec

    @property
    @override
    def cardinality(self) -> int:
        return 0 if self.source.cardinality == 0 else UNKNOWN


class _FilterStream(PassingStream):
    def __init__(self, source: Stream, predicate: Callable[..., Any]) -> None:
        self._source = source
        self._predicate = predicate

    @override
    def take(self, limit: int) -> Columns | None:
        while (columns := self._source.take(limit)) is not None:
            self.structure = self._source.structure
            keep = np.array(
                [
                    bool(cols.call(self._predicate, self.structure, row))
                    for row in cols.rows_of(columns)
                ]
            )
            if keep.any():
                return cols.select(columns, keep)
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class Enumerate(Node):
    """Pairs of a number and an element."""

    source: Node
    start: int

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _EnumerateStream(self.source.open(epoch), self.start)

    @property
    @override
    def spec(self) -> Any:
        return (TensorSpec((), np.int64), self.source.spec)

    @property
    @override
    def cardinality(self) -> int:
        return self.source.cardinality


class _EnumerateStream(Stream):
    def __init__(self, source: Stream, start: int) -> None:
        self._source = source
        self._next = start

    @override
    def take(self, limit: int) -> Columns | None:
        columns = self._source.take(limit)
        if columns is None:
            return None
        self.structure = jax.tree.structure(
            (0, jax.tree.unflatten(self._source.structure, [0] * len(columns)))
        )
        start, self._next = self._next, self._next + cols.num_rows(columns)
        return [np.arange(start, self._next), *columns]

    @override
    def state(self) -> State:
        return [self._next, self._source.state()]

    @override
    def restore(self, state: State) -> None:
        self._next, inner = state
        self._source.restore(inner)


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
        self._sources = sources
        self._nesting = nesting

    @override
    def take(self, limit: int) -> Columns | None:
        rows: list[list[Columns]] = [[] for _ in self._sources]
        for _ in range(limit):
            step: list[Columns] = []
            for source in self._sources:
                columns = source.take(1)
                if columns is None:
                    break
                step.append(columns)
            if len(step) < len(self._sources):
                break
            for kept, columns in zip(rows, step, strict=True):
                kept.append(columns)
        if not rows[0]:
            return None
        inner = [
            jax.tree.unflatten(s.structure, [0] * s.structure.num_leaves)
            for s in self._sources
        ]
        self.structure = jax.tree.structure(jax.tree.unflatten(self._nesting, inner))
        return list(itertools.chain(*(cols.concatenate(kept) for kept in rows)))

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
        return _ConcatenateStream(self.sources, epoch)

    @property
    @override
    def spec(self) -> Any:
        return jax.tree.map(_common, *(node.spec for node in self.sources))

    @property
    @override
    def cardinality(self) -> int:
        sizes = [node.cardinality for node in self.sources]
        if INFINITE in sizes:
            return INFINITE
        return UNKNOWN if UNKNOWN in sizes else sum(sizes)


def _common(first: TensorSpec, *rest: TensorSpec) -> TensorSpec:
    shape: Any = first.shape
    for other in rest:
        if shape is None or other.shape is None or len(other.shape) != len(shape):
            shape = None
        else:
            shape = tuple(
                a if a == b else None for a, b in zip(shape, other.shape, strict=True)
            )
    return TensorSpec(shape, first.dtype)


class _ConcatenateStream(Stream):
    def __init__(self, nodes: tuple[Node, ...], epoch: Epoch) -> None:
        self._nodes = nodes
        self._epoch = epoch
        self._open(0)

    @override
    def take(self, limit: int) -> Columns | None:
        while True:
            columns = self._source.take(limit)
            self.structure = self._source.structure
            if columns is not None or self._which + 1 == len(self._nodes):
                return columns
            self._open(self._which + 1)

    @override
    def state(self) -> State:
        return [self._which, self._source.state()]

    @override
    def restore(self, state: State) -> None:
        self._open(state[0])
        self._source.restore(state[1])

    def _open(self, which: int) -> None:
        self._which = which
        self._source = self._nodes[which].open(self._epoch)
