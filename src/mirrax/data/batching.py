"""Putting elements together, and taking them apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.plan import (
    UNKNOWN,
    Epoch,
    Node,
    PassingStream,
    ReplayedStream,
    Stream,
)
from mirrax.errors import InvalidArgumentError
from mirrax.values.specs import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Batch(Node):
    """Elements stacked along a new first dimension."""

    source: Node
    size: int
    drop_remainder: bool

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _BatchStream(self, epoch)

    @property
    @override
    def spec(self) -> Any:
        size = self.size if self.drop_remainder else None
        return jax.tree.map(lambda leaf: _with_rows(leaf, size), self.source.spec)

    @property
    @override
    def cardinality(self) -> int:
        inner = self.source.cardinality
        if inner < 0:
            return inner
        return inner // self.size if self.drop_remainder else -(-inner // self.size)


def _with_rows(spec: TensorSpec, size: int | None) -> TensorSpec:
    return TensorSpec(None if spec.shape is None else (size, *spec.shape), spec.dtype)


class _BatchStream(PassingStream):
    def __init__(self, node: Batch, epoch: Epoch) -> None:
        self._source = node.source.open(epoch)
        self._size = node.size
        self._drop = node.drop_remainder

    @override
    def take(self, limit: int) -> Columns | None:
        parts: list[Columns] = []
        missing = self._size
        while missing and (columns := self._source.take(missing)) is not None:
            parts.append(columns)
            missing -= cols.num_rows(columns)
        self.structure = self._source.structure
        if not parts or (missing and self._drop):
            return None
        return [_one_row(column) for column in cols.concatenate(parts)]


def _one_row(column: cols.Column) -> cols.Column:
    if isinstance(column, np.ndarray):
        return column[None]
    shapes = sorted({np.shape(row) for row in column})
    raise InvalidArgumentError(
        "The elements of a batch must have the same shape and dtype. Received: shapes "
        f"{', '.join(map(str, shapes))}. Use `padded_batch`, or make them equal."
    )


@dataclasses.dataclass(frozen=True, eq=False)
class PaddedBatch(Node):
    """Elements stacked after being filled up to the same shape."""

    source: Node
    size: int
    shapes: Any
    values: Any
    drop_remainder: bool

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _PaddedBatchStream(self, epoch)

    @property
    @override
    def spec(self) -> Any:
        size = self.size if self.drop_remainder else None
        structure: Any
        leaves, structure = jax.tree.flatten(self.source.spec)
        shapes = [None] * len(leaves)
        if self.shapes is not None:
            shapes = structure.flatten_up_to(self.shapes)
        padded = [
            _with_rows(_padded_spec(leaf, shape), size)
            for leaf, shape in zip(leaves, shapes, strict=True)
        ]
        return jax.tree.unflatten(structure, padded)

    @property
    @override
    def cardinality(self) -> int:
        inner = self.source.cardinality
        if inner < 0:
            return inner
        return inner // self.size if self.drop_remainder else -(-inner // self.size)


def _padded_spec(spec: TensorSpec, shape: Any) -> TensorSpec:
    if spec.shape is None:
        return spec
    wanted = (None,) * len(spec.shape) if shape is None else shape
    sizes = [None if size in (None, -1) else int(size) for size in wanted]
    return TensorSpec(sizes, spec.dtype)


class _PaddedBatchStream(PassingStream):
    def __init__(self, node: PaddedBatch, epoch: Epoch) -> None:
        self._source = node.source.open(epoch)
        self._node = node

    @override
    def take(self, limit: int) -> Columns | None:
        rows: list[Any] = []
        while len(rows) < self._node.size:
            columns = self._source.take(self._node.size - len(rows))
            if columns is None:
                break
            rows.extend(cols.rows_of(columns))
        self.structure = self._source.structure
        if not rows or (len(rows) < self._node.size and self._node.drop_remainder):
            return None
        leaves = list(zip(*rows, strict=True))
        shapes = self._per_leaf(self._node.shapes, len(leaves))
        values = self._per_leaf(self._node.values, len(leaves))
        return [
            _padded(column, shape, value)[None]
            for column, shape, value in zip(leaves, shapes, values, strict=True)
        ]

    def _per_leaf(self, given: Any, count: int) -> list[Any]:
        if given is None:
            return [None] * count
        return self.structure.flatten_up_to(given)  # type: ignore[no-any-return]


def _padded(rows: Any, shape: Any, value: Any) -> np.ndarray[Any, Any]:
    if isinstance(rows[0], bytes | str):
        return cols.as_strings(rows)
    arrays = [np.asarray(row) for row in rows]
    largest = tuple(max(sizes) for sizes in zip(*(a.shape for a in arrays)))
    wanted = shape if shape is not None else (None,) * len(largest)
    target = tuple(
        int(have) if want is None or want == -1 else int(want)
        for have, want in zip(largest, wanted, strict=True)
    )
    if any(have > room for have, room in zip(largest, target, strict=True)):
        raise InvalidArgumentError(
            "An element must fit into `padded_shapes`. Received: an element of shape "
            f"{largest} for {target}."
        )
    dtype = arrays[0].dtype
    filler: Any = b"" if dtype.kind == "O" else 0
    batch = np.full((len(arrays), *target), filler if value is None else value, dtype)
    for index, array in enumerate(arrays):
        place: Any = (index, *(slice(size) for size in array.shape))
        batch[place] = array
    return batch


@dataclasses.dataclass(frozen=True, eq=False)
class Unbatch(Node):
    """The rows of elements."""

    source: Node

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _UnbatchStream(self.source.open(epoch))

    @property
    @override
    def spec(self) -> Any:
        return jax.tree.map(_without_rows, self.source.spec)

    @property
    @override
    def cardinality(self) -> int:
        return UNKNOWN


def _without_rows(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(None if spec.shape is None else spec.shape[1:], spec.dtype)


class _UnbatchStream(ReplayedStream):
    def __init__(self, source: Stream) -> None:
        self._source = source
        self._left: Columns | None = None

    @override
    def _take(self, limit: int) -> Columns | None:
        while self._left is None or not cols.num_rows(self._left):
            columns = self._source.take(1)
            self.structure = self._source.structure
            if columns is None:
                return None
            self._left = [column[0] for column in columns]
            sizes = {len(rows) for rows in self._left}
            if len(sizes) > 1:
                raise InvalidArgumentError(
                    "All arrays of an element must have the same number of rows to be "
                    f"taken apart. Received: {sorted(sizes)}."
                )
        taken = cols.select(self._left, slice(0, limit))
        self._left = cols.select(self._left, slice(limit, None))
        return taken


@dataclasses.dataclass(frozen=True, eq=False)
class Rebatch(Node):
    """Batches cut anew into parts of given sizes, in turn, across their borders.

    Args:
        source: The batches.
        sizes: Of the parts, in turn.
        drop_remainder: Whether a last part that is too small is left out.
    """

    source: Node
    sizes: tuple[int, ...]
    drop_remainder: bool = False

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _RebatchStream(self, epoch)

    @property
    @override
    def spec(self) -> Any:
        return jax.tree.map(
            lambda leaf: _with_rows(_without_rows(leaf), None), self.source.spec
        )

    @property
    @override
    def cardinality(self) -> int:
        return UNKNOWN


class _RebatchStream(ReplayedStream):
    def __init__(self, node: Rebatch, epoch: Epoch) -> None:
        self._rows = _UnbatchStream(node.source.open(epoch))
        self._node = node
        self._has_ended = False
        self._empty: Columns | None = None

    @override
    def _take(self, limit: int) -> Columns | None:
        size = self._node.sizes[self._taken % len(self._node.sizes)]
        if self._has_ended:
            return None
        if size == 0 and self._empty is not None:
            return self._empty
        parts: list[Columns] = []
        missing = size
        while missing and (columns := self._rows.take(missing)) is not None:
            parts.append(columns)
            missing -= cols.num_rows(columns)
        self.structure = self._rows.structure
        if not parts or (missing and self._node.drop_remainder):
            self._has_ended = True
            return None
        batch = [_one_row(column) for column in cols.concatenate(parts)]
        self._empty = [column[:, :0] for column in batch]
        return batch


@dataclasses.dataclass(frozen=True, eq=False)
class Window(Node):
    """Elements in groups that are datasets themselves.

    Args:
        source: The elements.
        size: How many are in a group.
        shift: How far apart groups start.
        stride: How far apart elements of a group are.
        drop_remainder: Whether groups that are too small are left out.
        make: Makes a dataset of columns.
    """

    source: Node
    size: int
    shift: int
    stride: int
    drop_remainder: bool
    make: Callable[[Any, Columns], Any] = dataclasses.field(repr=False)

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _WindowStream(self, epoch)

    @property
    @override
    def spec(self) -> Any:
        return TensorSpec(None, object)

    @property
    @override
    def cardinality(self) -> int:
        return UNKNOWN


class _WindowStream(ReplayedStream):
    def __init__(self, node: Window, epoch: Epoch) -> None:
        self._source = node.source.open(epoch)
        self._node = node
        self._rows: list[Any] = []
        self.structure = node.structure

    @override
    def _take(self, limit: int) -> Columns | None:
        node = self._node
        self._fill((node.size - 1) * node.stride + 1)
        chosen = self._rows[:: node.stride][: node.size]
        if not chosen or (len(chosen) < node.size and node.drop_remainder):
            return None
        self._fill(node.shift)
        del self._rows[: node.shift]
        window = np.empty(1, object)
        window[0] = node.make(self._source.structure, cols.from_rows(chosen))
        return [window]

    def _fill(self, count: int) -> None:
        while len(self._rows) < count:
            columns = self._source.take(count - len(self._rows))
            if columns is None:
                return
            self._rows.extend(cols.rows_of(columns))
