"""Elements in columnar form: for each leaf, an array or a list of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Column = Any
"""An array whose first dimension counts the rows, or a list of unequal rows."""

Columns = list[Column]

STRING = np.dtype(object)
"""The dtype of strings: arrays of them hold bytes objects."""


def num_rows(columns: Columns) -> int:
    """Returns the number of elements in the columns."""
    return len(columns[0])


def stack(rows: Sequence[Any]) -> Column:
    """Returns rows as one array; as a list if their shapes or dtypes differ."""
    first = rows[0]
    if isinstance(first, bytes | str):
        return as_strings(rows)
    arrays = [np.asarray(row) for row in rows]
    kind = (arrays[0].shape, arrays[0].dtype)
    if any((array.shape, array.dtype) != kind for array in arrays):
        return arrays
    return np.stack(arrays)


def as_objects(rows: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Returns an array of bytes objects, or of any other objects."""
    objects = np.empty(len(rows), object)
    objects[:] = rows
    return objects


def as_strings(rows: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Returns strings as an array of bytes objects."""
    return as_objects([r.encode() if isinstance(r, str) else r for r in rows])


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """Returns an array of a number, a string, a list of them, or another array."""
    array = np.asarray(value)
    if array.dtype.kind in "US" and not isinstance(value, np.ndarray):
        # NumPy's own strings lose zeros at their end.
        array = np.asarray(value, object)
    is_text = array.dtype == STRING and all(isinstance(x, str) for x in array.flat)
    if array.dtype.kind in "US" or is_text:
        return as_strings(array.ravel().tolist()).reshape(array.shape)
    is_numpy = isinstance(value, np.generic)
    if isinstance(value, list | float) and not is_numpy and array.dtype == np.float64:
        # As TensorFlow and JAX convert Python numbers.
        return array.astype(np.float32)
    return array


def concatenate(parts: Sequence[Columns]) -> Columns:
    """Concatenates columns."""
    if len(parts) == 1:
        return parts[0]
    return [_concatenate(column) for column in zip(*parts, strict=True)]


def _concatenate(pieces: Sequence[Column]) -> Column:
    first = pieces[0]
    if all(
        isinstance(p, np.ndarray)
        and p.shape[1:] == first.shape[1:]
        and p.dtype == first.dtype
        for p in pieces
    ):
        return np.concatenate(pieces)
    return [row for piece in pieces for row in piece]


def select(columns: Columns, index: Any) -> Columns:
    """Returns the rows of a slice, or of an array of indices or booleans."""
    return [
        column[index]
        if isinstance(column, np.ndarray) or isinstance(index, slice)
        else [column[i] for i in np.arange(len(column))[index]]
        for column in columns
    ]


def rows_of(columns: Columns) -> list[tuple[Any, ...]]:
    """Returns the elements one by one, as tuples of leaves."""
    return list(zip(*columns, strict=True))


def from_rows(rows: Sequence[Sequence[Any]]) -> Columns:
    """Returns elements, as sequences of leaves, as columns."""
    return [stack(column) for column in zip(*rows, strict=True)]
