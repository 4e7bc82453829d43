"""Adapter of Hugging Face datasets, whose elements are rows."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.adapters.elements import as_element
from mirrax.data.adapters.foreign import counted, spec_of
from mirrax.data.plan.columns import Column, Columns, from_rows
from mirrax.data.plan.indexed import IndexedNode
from mirrax.data.plan.node import Node
from mirrax.errors import InvalidArgumentError


def adapt(value: Any) -> Node | None:
    """Returns the rows of a `Dataset` or an `IterableDataset`."""
    datasets: Any = sys.modules.get("datasets")
    if datasets is None:
        return None
    if isinstance(value, datasets.Dataset):
        return Table(value)
    if isinstance(value, datasets.IterableDataset):
        # Its own positions ignore the shuffle buffer, so elements are counted.
        return counted("datasets.IterableDataset", lambda: iter(value))
    return None


@dataclasses.dataclass(frozen=True, eq=False)
class Table(IndexedNode):
    """The rows of a table, looked up in chunks."""

    is_expensive = True
    chunk = 64

    dataset: Any = dataclasses.field(repr=False)

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        found = self.dataset[numbers.tolist()]
        try:
            return [_as_column(found[name]) for name in sorted(found)]
        except InvalidArgumentError:
            return _by_rows(found, len(numbers))

    @functools.cached_property
    @override
    def spec(self) -> Any:
        return spec_of(self.dataset[0]) if len(self.dataset) else None

    @property
    @override
    def cardinality(self) -> int:
        return len(self.dataset)


def _as_column(values: Any) -> Column:
    column = as_element(values)
    if not isinstance(column, np.ndarray):
        raise InvalidArgumentError("These values are no array.")
    return column


def _by_rows(found: dict[str, Any], count: int) -> Columns:
    """Returns rows of different shapes, or rows that contain structures."""
    rows = [
        as_element({name: values[i] for name, values in found.items()})
        for i in range(count)
    ]
    leaves = [jax.tree.leaves(row, is_leaf=lambda leaf: leaf is None) for row in rows]
    if any(leaf is None for row in leaves for leaf in row):
        raise InvalidArgumentError(
            "Every row must have a value in every column: no value may be missing. "
            f"Received: {rows}. Fill in or leave out rows with None."
        )
    return from_rows(leaves)
