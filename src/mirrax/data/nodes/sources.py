"""Data in memory and in functions: slices, `range`, `counter`, `random`, generators."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.plan.columns import STRING, Column, Columns, as_array, from_rows
from mirrax.data.plan.node import INFINITE, UNKNOWN, Epoch, Node
from mirrax.data.plan.row_numbers import IndexedNode
from mirrax.data.plan.seeds import Seeded, random_for
from mirrax.data.plan.streams import NumberedStream, ReplayedStream, Stream
from mirrax.errors import InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Slices(IndexedNode):
    """The rows of columns."""

    columns: Columns = dataclasses.field(repr=False)
    cardinality: int = 0
    spec: Any = dataclasses.field(default=None, repr=False)

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        return [
            np.take(column, numbers, axis=0)
            if isinstance(column, np.ndarray)
            else [column[number] for number in numbers.tolist()]
            for column in self.columns
        ]


def slices(tensors: Any) -> Slices:
    """Returns the rows of a structure of arrays, or of lists of numbers."""
    return _slices(_arrays(tensors))


def one_element(tensors: Any) -> Slices:
    """Returns a structure of arrays as one element."""
    return _slices(jax.tree.map(lambda array: array[None], _arrays(tensors)))


def _arrays(tensors: Any) -> Any:
    try:
        return jax.tree.map(as_array, tensors, is_leaf=lambda x: isinstance(x, list))
    except ValueError as error:
        raise ValueError(
            "Lists must be rows of the same length to be an array. Received: "
            f"{tensors!r}. Pad them, or use `from_generator`."
        ) from error


def slices_of_columns(structure: Any, columns: Columns) -> Slices:
    """Returns the rows of columns."""
    specs = [_spec_of_rows(column) for column in columns]
    return Slices(columns, len(columns[0]), jax.tree.unflatten(structure, specs))


def _spec_of_rows(column: Column) -> TensorSpec:
    if isinstance(column, np.ndarray):
        return TensorSpec(column.shape[1:], column.dtype)
    return TensorSpec(None, column[0].dtype)


def _slices(arrays: Any) -> Slices:
    leaves, nesting = jax.tree.flatten(arrays)
    if not leaves or any(leaf.ndim == 0 for leaf in leaves):
        raise ValueError(
            "Slices are taken along the first dimension, which every array must have. "
            f"Received: shapes {[leaf.shape for leaf in leaves]}."
        )
    sizes = {len(leaf) for leaf in leaves}
    if len(sizes) > 1:
        raise ValueError(
            "All arrays must have the same number of rows. Received: "
            f"{sorted(sizes)}. Cut them to the same length."
        )
    return slices_of_columns(nesting, leaves)


_ROWS = 256
"""How many random numbers are made at once."""


@dataclasses.dataclass(frozen=True, eq=False)
class Range(IndexedNode):
    """Numbers from a start on, by a step."""

    start: int = 0
    step: int = 1
    cardinality: int = INFINITE
    dtype: np.dtype[Any] = dataclasses.field(default=np.dtype(np.int64), repr=False)

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        return [(self.start + numbers * self.step).astype(self.dtype)]

    @property
    @override
    def spec(self) -> Any:
        return TensorSpec((), self.dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class RandomNumbers(Node, Seeded):
    """Random integers below 2**32; with weights, indices that are as frequent."""

    spec = TensorSpec((), np.int64)
    cardinality = INFINITE

    seed: int
    rerandomize: bool
    is_unseeded: bool = dataclasses.field(default=False, repr=False)
    weights: tuple[float, ...] = ()

    @override
    def open(self, epoch: Epoch) -> Stream:
        seed = (self.seed, *(epoch if self.rerandomize else ()))
        return _RandomStream(seed, np.cumsum(self.weights))


class _RandomStream(NumberedStream):
    """Random numbers, generated in blocks for fast restores."""

    chunk = _ROWS
    structure = jax.tree.structure(0)

    def __init__(self, seed: tuple[int, ...], bounds: np.ndarray[Any, Any]) -> None:
        self._seed = seed
        self._bounds = bounds
        self._made = (-1, np.zeros(0, np.int64))

    @override
    def take(self, limit: int) -> Columns | None:
        number, start = divmod(self._next, _ROWS)
        if self._made[0] != number:
            block = random_for(*self._seed, number).integers(2**32, size=_ROWS)
            if len(self._bounds):
                scaled = block / 2**32 * self._bounds[-1]
                block = np.searchsorted(self._bounds, scaled, side="right")
            self._made = (number, block)
        taken = self._made[1][start : start + limit]
        self._next += len(taken)
        return [taken]


@dataclasses.dataclass(frozen=True, eq=False)
class Generated(Node):
    """What a Python function yields."""

    is_expensive = True
    cardinality = UNKNOWN

    function: Callable[[], Iterable[Any]]
    spec: Any = None

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _GeneratedStream(self)


class _GeneratedStream(ReplayedStream):
    def __init__(self, node: Generated) -> None:
        self._elements = iter(node.function())
        self._specs, self.structure = jax.tree.flatten(node.spec)

    @override
    def _take(self, limit: int) -> Columns | None:
        # One at a time, so that nothing is read ahead.
        for element in itertools.islice(self._elements, 1):
            return from_rows([self._checked(element)])
        return None

    def _checked(self, element: Any) -> list[Any]:
        try:
            leaves = self.structure.flatten_up_to(element)
            pairs = zip(leaves, self._specs, strict=True)
            return [_fitted(leaf, spec) for leaf, spec in pairs]
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                "What a generator yields must fit its `output_signature`. Received: "
                f"element {self._taken}, {element!r}, for "
                f"{jax.tree.unflatten(self.structure, self._specs)}."
            ) from error


def _fitted(leaf: Any, spec: TensorSpec) -> Any:
    # Python numbers keep their precision where it is asked for.
    array = np.asarray(leaf) if spec.dtype == np.float64 else as_array(leaf)
    if not spec.allows(array.shape):
        raise ValueError
    if array.dtype.kind in "iu" and spec.dtype.kind in "iu":
        # Also to unsigned numbers, of which signed ones are not the same kind.
        fits = np.array_equal(array.astype(spec.dtype), array)
    else:
        is_other_kind = (array.dtype == STRING) != (spec.dtype == STRING)
        fits = not is_other_kind and np.can_cast(array.dtype, spec.dtype, "same_kind")
    if array.size and not fits:
        raise TypeError
    return array.astype(spec.dtype)
