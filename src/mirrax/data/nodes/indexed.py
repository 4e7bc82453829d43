"""Nodes with random access: `range`, `from_tensors` and `from_tensor_slices`."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns, as_array
from mirrax.data.plan.indices import SequentialIndices, take_numbers
from mirrax.data.plan.node import DelayingStream, Epoch, Node, PassingStream, Stream
from mirrax.values.tensor_spec import TensorSpec


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

    @abc.abstractmethod
    def indices(self, epoch: Epoch) -> Stream:
        """Returns the numbers of the elements in order, as one column."""

    @abc.abstractmethod
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        """Returns the elements with these numbers."""

    @override
    def open(self, epoch: Epoch) -> Stream:
        return IndexedStream(self, self.indices(epoch))


class IndexedStream(PassingStream, DelayingStream):
    """Elements in the order of their numbers."""

    def __init__(self, node: IndexedNode, indices: Stream) -> None:
        self._look_up = node.look_up
        self._source = indices
        self.structure = node.structure
        self.chunk = node.chunk

    @override
    def _take(self, limit: int) -> Columns | None:
        numbers = take_numbers(self._source, limit)
        if not len(numbers):
            return None
        try:
            return self._look_up(numbers)
        except Exception:
            if len(numbers) == 1:
                raise
            one_by_one = (self._look_up(number[None]) for number in numbers)
            return cols.concatenate(self._until_error(one_by_one))


@dataclasses.dataclass(frozen=True, eq=False)
class Range(IndexedNode):
    """Integers."""

    spec = TensorSpec((), np.int64)

    numbers: range

    @override
    def indices(self, epoch: Epoch) -> Stream:
        return SequentialIndices(len(self.numbers))

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        return [self.numbers.start + numbers * self.numbers.step]

    @property
    @override
    def cardinality(self) -> int:
        return len(self.numbers)


@dataclasses.dataclass(frozen=True, eq=False)
class Slices(IndexedNode):
    """The rows of arrays."""

    arrays: tuple[np.ndarray[Any, Any], ...] = dataclasses.field(repr=False)
    nesting: Any = dataclasses.field(repr=False)
    count: int

    @override
    def indices(self, epoch: Epoch) -> Stream:
        return SequentialIndices(self.count)

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        return [np.take(array, numbers, axis=0) for array in self.arrays]

    @property
    @override
    def spec(self) -> Any:
        specs = [TensorSpec(array.shape[1:], array.dtype) for array in self.arrays]
        return jax.tree.unflatten(self.nesting, specs)

    @property
    @override
    def cardinality(self) -> int:
        return self.count


def slices(tensors: Any) -> Slices:
    """Returns the rows of a structure of arrays, or of lists of numbers."""
    try:
        arrays = jax.tree.map(as_array, tensors, is_leaf=_is_list)
    except ValueError as error:
        raise ValueError(
            "Lists must be rows of the same length to be an array. Received: "
            f"{tensors!r}. Pad them, or use `from_generator`."
        ) from error
    return _slices(arrays)


def one_element(tensors: Any) -> Slices:
    """Returns a structure of arrays as one element."""
    rows = jax.tree.map(lambda leaf: as_array(leaf)[None], tensors, is_leaf=_is_list)
    return _slices(rows)


def slices_of_columns(structure: Any, columns: Columns) -> Slices:
    """Returns columns as the rows of arrays."""
    arrays = tuple(np.asarray(column) for column in columns)
    return Slices(arrays, structure, len(arrays[0]))


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
    return Slices(tuple(leaves), nesting, len(leaves[0]))


def _is_list(value: object) -> bool:
    return isinstance(value, list)
