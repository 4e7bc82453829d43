"""`batch`, `padded_batch`, `unbatch` and `rebatch`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.nodes.buffered import BufferedStream
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import UNKNOWN, Epoch, SourceNode
from mirrax.data.plan.streams import SourceStream, Stream, take_up_to
from mirrax.errors import InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Batching(SourceNode):
    """Groups of `size` elements; the last may be smaller, or dropped."""

    size: int
    drop_remainder: bool

    @override
    def count_of(self, inner: int) -> int:
        return inner // self.size if self.drop_remainder else -(-inner // self.size)

    @property
    def num_rows(self) -> int | None:
        """The number of rows of every batch, if all are equal."""
        return self.size if self.drop_remainder else None


class _BatchStream(SourceStream):
    _node: Batch

    @override
    def take(self, limit: int) -> Columns | None:
        batch = take_batch(self._source, self._node.size, self._node.drop_remainder)
        self.structure = self._source.structure
        return batch


@dataclasses.dataclass(frozen=True, eq=False)
class Batch(Batching):
    """Elements stacked along a new first dimension."""

    stream = _BatchStream

    @property
    @override
    def spec(self) -> Any:
        count = self.num_rows
        return jax.tree.map(lambda leaf: with_rows(leaf, count), self.source.spec)


def with_rows(spec: TensorSpec, size: int | None) -> TensorSpec:
    """Returns the spec of `size` stacked elements."""
    return TensorSpec(None if spec.shape is None else (size, *spec.shape), spec.dtype)


def take_batch(source: Stream, size: int, drop_remainder: bool) -> Columns | None:
    """Returns the next `size` elements as one element; None at the end."""
    parts = take_up_to(source, size)
    if not parts or (drop_remainder and sum(map(cols.num_rows, parts)) < size):
        return None
    columns = cols.concatenate(parts)
    if all(isinstance(column, np.ndarray) for column in columns):
        return [column[None] for column in columns]
    return list(map(_as_one_row, columns, _are_padded(source.structure)))


class PaddedInBatches:
    """Base of pytree nodes whose arrays `batch` pads to a common shape.

    >>> @jax.tree_util.register_dataclass
    ... @dataclasses.dataclass
    ... class Words(mirrax.data.PaddedInBatches):
    ...     numbers: np.ndarray
    >>> dataset = mirrax.data.Dataset.range(3).map(lambda n: Words(np.ones(int(n))))
    >>> next(iter(dataset.batch(3))).numbers.tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    """


def _are_padded(structure: Any) -> list[bool]:
    """Returns for each leaf whether it is part of an object that is padded."""
    element = jax.tree.unflatten(structure, [0] * structure.num_leaves)
    flags = jax.tree.map(
        lambda part: jax.tree.map(lambda _: _is_padded(part), part),
        element,
        is_leaf=_is_padded,
    )
    return jax.tree.leaves(flags)


def _is_padded(part: Any) -> bool:
    return isinstance(part, PaddedInBatches)


def _as_one_row(column: cols.Column, is_padded: bool) -> cols.Column:
    if isinstance(column, np.ndarray):
        return column[None]
    if is_padded:
        return _padded(column, None, None, None, int)[None]
    raise InvalidArgumentError(
        "The elements of a batch must have the same shape and dtype. Received: "
        f"{_kinds(column)}. Use `padded_batch`, or make them equal."
    )


def _kinds(rows: Iterable[Any]) -> str:
    arrays = [np.asarray(row) for row in rows]
    kinds = sorted({f"{array.dtype}{list(array.shape)}" for array in arrays})
    return ", ".join(kinds)


class _PaddedBatchStream(SourceStream):
    _node: PaddedBatch

    @override
    def take(self, limit: int) -> Columns | None:
        parts = take_up_to(self._source, self._node.size)
        rows = [row for columns in parts for row in cols.rows_of(columns)]
        self.structure = self._source.structure
        if not rows or (len(rows) < self._node.size and self._node.drop_remainder):
            return None
        leaves = list(zip(*rows, strict=True))
        shapes = self._per_leaf(self._node.shapes, len(leaves))
        values = self._node.values
        if jax.tree_util.all_leaves([values]):
            values = [values] * len(leaves)
        else:
            values = self._per_leaf(values, len(leaves))
        given = zip(leaves, shapes, self._known_shapes, values, strict=True)
        return [_padded(*leaf, self._node.round_up)[None] for leaf in given]

    @functools.cached_property
    def _known_shapes(self) -> list[Any]:
        """Shapes of the elements, whose sizes are not rounded."""
        node = self._node
        # TensorFlow pads to a bucket's boundary whatever the elements are.
        is_overruled = node.shapes is not None and node.round_up is not few_length
        if node.round_up is int or is_overruled:
            return [None] * self.structure.num_leaves
        return [leaf.shape for leaf in jax.tree.leaves(self._node.source.spec)]

    def _per_leaf(self, given: Any, count: int) -> list[Any]:
        if given is None:
            return [None] * count
        return self.structure.flatten_up_to(given)


@dataclasses.dataclass(frozen=True, eq=False)
class PaddedBatch(Batching):
    """Elements padded to the same shape, then stacked.

    Sizes that neither `shapes` nor the elements fix are those of the longest element,
    after `round_up`.
    """

    stream = _PaddedBatchStream

    shapes: Any
    values: Any
    round_up: Callable[[int], int] = int

    @property
    @override
    def spec(self) -> Any:
        structure: Any
        leaves, structure = jax.tree.flatten(self.source.spec)
        shapes = [None] * len(leaves)
        if self.shapes is not None:
            shapes = structure.flatten_up_to(self.shapes)
        padded = [
            with_rows(_padded_spec(leaf, shape), self.num_rows)
            for leaf, shape in zip(leaves, shapes, strict=True)
        ]
        return jax.tree.unflatten(structure, padded)


def few_length(length: int) -> int:
    """Returns the next power of two, at least 16.

    >>> [few_length(length) for length in (1, 16, 17, 100)]
    [16, 16, 32, 128]
    """
    return max(16, 1 << (length - 1).bit_length())


def _padded_spec(spec: TensorSpec, shape: Any) -> TensorSpec:
    if spec.shape is None:
        return spec
    wanted = spec.shape if shape is None else shape
    sizes = [None if size in (None, -1) else int(size) for size in wanted]
    return TensorSpec(sizes, spec.dtype)


def _padded(
    rows: Any, shape: Any, known: Any, value: Any, round_up: Callable[[int], int]
) -> np.ndarray[Any, Any]:
    if isinstance(rows[0], bytes | str):
        return cols.as_strings(rows)
    arrays = [np.asarray(row) for row in rows]
    if len({(array.ndim, array.dtype) for array in arrays}) > 1:
        raise InvalidArgumentError(
            "Elements that are filled up to one shape must have the same dtype and the "
            f"same number of dimensions. Received: {_kinds(arrays)}."
        )
    target = _target_shape([a.shape for a in arrays], shape, known, round_up)
    dtype = arrays[0].dtype
    if value is None:
        value = b"" if dtype.kind == "O" else 0
    elif isinstance(value, str):
        value = value.encode()
    batch = np.full((len(arrays), *target), value, dtype)
    for index, array in enumerate(arrays):
        place: Any = (index, *(slice(size) for size in array.shape))
        batch[place] = array
    return batch


def _target_shape(
    shapes: Sequence[tuple[int, ...]],
    shape: Any,
    known: Any,
    round_up: Callable[[int], int],
) -> tuple[int, ...]:
    """Returns the shape to which elements of these shapes are padded."""
    sizes = list(zip(*shapes))
    largest = tuple(map(max, sizes))
    wanted = shape if shape is not None else (None,) * len(largest)
    if len(wanted) != len(largest):
        raise InvalidArgumentError(
            "`padded_shapes` must have a size for each dimension. Received: "
            f"{tuple(wanted)} for elements of shape {largest}."
        )
    fixed = known or (None,) * len(largest)
    # What is known may come from the first element only.
    rounded = [
        size if set(each) == {size} else round_up(max(each))
        for size, each in zip(fixed, sizes, strict=True)
    ]
    target = tuple(
        int(size if want is None or want == -1 else want)
        for size, want in zip(rounded, wanted, strict=True)
    )
    if any(have > room for have, room in zip(largest, target, strict=True)):
        raise InvalidArgumentError(
            "An element must fit into `padded_shapes`. Received: an element of shape "
            f"{largest} for {target}."
        )
    return target


@dataclasses.dataclass(frozen=True, eq=False)
class Unbatch(SourceNode):
    """The rows of elements."""

    cardinality = UNKNOWN

    @override
    def open(self, epoch: Epoch) -> Stream:
        return BufferedStream(_ElementRows(self.source.open(epoch), self))

    @property
    @override
    def spec(self) -> Any:
        return jax.tree.map(_without_rows, self.source.spec)


def _without_rows(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(None if spec.shape is None else spec.shape[1:], spec.dtype)


class _ElementRows(SourceStream):
    """Gives all rows of an element at once."""

    @override
    def take(self, limit: int) -> Columns | None:
        while (columns := self._source.take(1)) is not None:
            self.structure = self._source.structure
            rows = [column[0] for column in columns]
            if any(np.ndim(leaf) == 0 for leaf in rows):
                raise InvalidArgumentError(
                    "Elements are taken apart along their first dimension, which every "
                    "array must have. Received: an element with a scalar. Call `batch` "
                    "first."
                )
            sizes = {len(leaf) for leaf in rows}
            if len(sizes) > 1:
                raise InvalidArgumentError(
                    "All arrays of an element must have the same number of rows to be "
                    f"taken apart. Received: {sorted(sizes)}."
                )
            if cols.num_rows(rows):
                return rows
        return None


class _RebatchStream(SourceStream):
    _node: Rebatch

    @override
    def take(self, limit: int) -> Columns | None:
        size = self._node.sizes[self._count % len(self._node.sizes)]
        batch = take_batch(self._source, size, self._node.drop_remainder)
        self.structure = self._source.structure
        self._count += batch is not None
        return batch


@dataclasses.dataclass(frozen=True, eq=False)
class Rebatch(SourceNode):
    """Batches of the rows of other batches; their sizes are used in turn."""

    stream = _RebatchStream
    cardinality = UNKNOWN

    sizes: tuple[int, ...]
    drop_remainder: bool = False

    @property
    @override
    def spec(self) -> Any:
        is_fixed = self.drop_remainder and len(set(self.sizes)) == 1
        size = self.sizes[0] if is_fixed else None
        return jax.tree.map(lambda leaf: with_rows(leaf, size), self.source.spec)
