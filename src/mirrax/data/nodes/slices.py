"""`from_tensor_slices` and `from_tensors`: the rows of arrays."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.plan.columns import Column, Columns, as_array
from mirrax.data.plan.indexed import IndexedNode
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Slices(IndexedNode):
    """The rows of columns, with the spec `element`."""

    columns: Columns = dataclasses.field(repr=False)
    count: int
    element: Any = dataclasses.field(repr=False)

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        return [
            np.take(column, numbers, axis=0)
            if isinstance(column, np.ndarray)
            else [column[number] for number in numbers.tolist()]
            for column in self.columns
        ]

    @property
    @override
    def spec(self) -> Any:
        return self.element

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


def _is_list(value: object) -> bool:
    return isinstance(value, list)
