"""`from_tensor_slices` and `from_tensors`: the rows of arrays."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.plan.columns import Columns, as_array
from mirrax.data.plan.indexed import IndexedNode
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Slices(IndexedNode):
    """The rows of arrays."""

    arrays: tuple[np.ndarray[Any, Any], ...] = dataclasses.field(repr=False)
    nesting: Any = dataclasses.field(repr=False)
    count: int

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
