"""Adapters of other libraries' datasets, if the user has imported them."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.adapters.elements import as_element
from mirrax.data.adapters.iterables import (
    ForeignSource,
    ForeignStream,
    LookUpStream,
    counted,
    spec_of,
)
from mirrax.data.plan.columns import Column, Columns, from_rows
from mirrax.data.plan.node import INFINITE, UNKNOWN, Node
from mirrax.data.plan.row_numbers import IndexedNode
from mirrax.data.plan.streams import State
from mirrax.errors import InvalidArgumentError


def adapt_grain(value: Any) -> Node | None:
    """Returns the elements of a `MapDataset` or an `IterDataset`."""
    grain: Any = sys.modules.get("grain")
    if grain is None:
        return None
    if isinstance(value, grain.MapDataset):
        # An infinite one has the length sys.maxsize. It may skip elements, so the
        # length is only an upper bound.
        count = len(value)
        return ForeignSource(
            "grain.MapDataset",
            lambda: LookUpStream(value.__getitem__, count),
            INFINITE if count == sys.maxsize else UNKNOWN,
            gives_rows=not _is_batched(value),
        )
    if isinstance(value, grain.IterDataset):
        return ForeignSource(
            "grain.IterDataset",
            lambda: _GrainStream(iter(value)),
            gives_rows=not _is_batched(value),
        )
    return None


def _is_batched(dataset: Any) -> bool:
    """Returns whether a Grain dataset, or one it is made of, has passed `batch`."""
    # The classes of transformations are not public; their names say what they do.
    return "Batch" in type(dataset).__name__ or any(map(_is_batched, dataset.parents))


class _GrainStream(ForeignStream):
    """Grain's elements, with its positions."""

    def __init__(self, elements: Any) -> None:
        self._elements = elements

    @override
    def next(self) -> Any:
        return next(self._elements)

    @override
    def state(self) -> State:
        return self._elements.get_state()

    @override
    def restore(self, state: State) -> None:
        self._elements.set_state(state)


def adapt_keras(value: Any) -> Node | None:
    """Returns the batches of a `PyDataset`."""
    keras: Any = sys.modules.get("keras")
    if keras is None or not isinstance(value, keras.utils.PyDataset):
        return None
    count = INFINITE if value.num_batches is None else value.num_batches
    return ForeignSource("keras.utils.PyDataset", lambda: _KerasBatches(value), count)


class _KerasBatches(LookUpStream):
    """The batches of one epoch, with Keras' epoch callbacks."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset.__getitem__, dataset.num_batches)
        self._dataset = dataset
        self._has_begun = False

    @override
    def next(self) -> Any:
        if not self._has_begun:
            self._has_begun = True
            self._dataset.on_epoch_begin()
        try:
            return super().next()
        except StopIteration:
            self._dataset.on_epoch_end()
            raise


def adapt_torch(value: Any) -> Node | None:
    """Returns the batches of a `DataLoader`."""
    data: Any = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(value, data.DataLoader):
        return None
    is_stream = isinstance(value.dataset, data.IterableDataset)
    count = UNKNOWN if is_stream else len(value)
    return counted("torch.utils.data.DataLoader", lambda: iter(value), count)


def adapt_tensorflow(value: Any) -> Node | None:
    """Returns the elements of a `tf.data.Dataset`."""
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is None or not isinstance(value, tensorflow.data.Dataset):
        return None
    # TensorFlow uses the same numbers for infinite and unknown.
    count = int(value.cardinality())
    return counted("tf.data.Dataset", value.as_numpy_iterator, count)


def adapt_hugging_face(value: Any) -> Node | None:
    """Returns the rows of a `Dataset` or an `IterableDataset`."""
    datasets: Any = sys.modules.get("datasets")
    if datasets is None:
        return None
    if isinstance(value, datasets.Dataset):
        return Table(value)
    if isinstance(value, datasets.IterableDataset):
        # Its own positions ignore the shuffle buffer, so elements are counted.
        name = "datasets.IterableDataset"
        return counted(name, lambda: iter(value), gives_rows=True)
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
