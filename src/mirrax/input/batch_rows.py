"""Reads batches row by row, with a position that can be saved."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.iterator import DatasetIterator
from mirrax.data.nodes.buffered import BufferedStream
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import State, Stream
from mirrax.errors import InvalidArgumentError
from mirrax.trees import Tree


class BatchRowReader(BufferedStream):
    """Reads rows across batches; its state is the position of the next row."""

    def __init__(self, batches: DatasetIterator) -> None:
        super().__init__(_WholeBatches(batches))

    def take_rows(self, limit: int) -> Tree:
        """Returns 1 to `limit` rows of the current batch; an empty slice for 0."""
        return jax.tree.unflatten(self.structure, self.take_buffered(limit))

    @property
    def batch_size(self) -> int:
        """The size of the current batch."""
        return self._count


class _WholeBatches(Stream):
    """Gives all rows of a batch at once."""

    def __init__(self, batches: DatasetIterator) -> None:
        self._batches = batches

    @override
    def take(self, limit: int) -> Columns | None:
        for batch in self._batches:
            if num_rows(batch):
                columns, self.structure = jax.tree.flatten(batch)
                return columns
        return None

    @override
    def state(self) -> State:
        return self._batches.position()

    @override
    def restore(self, state: State) -> None:
        self._batches.seek(state)


def num_rows(batch: Tree) -> int:
    """Returns the number of rows of a batch; raises if it is not a batch."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(batch)]
    if () in shapes:
        raise not_batched_error(shapes)
    counts = {shape[0] for shape in shapes}
    if len(counts) > 1:
        raise InvalidArgumentError(
            "All arrays of a batch must have the same number of rows. "
            f"Received: {sorted(counts)}."
        )
    return counts.pop() if counts else 0


def not_batched_error(received: Any) -> IndexError:
    """Returns the error for elements that are not batches."""
    # An IndexError, as in TensorFlow.
    return IndexError(
        "A dataset is divided along the first dimension of its elements, so they must "
        f"be batches. Received: elements with scalars, {received}. Call `batch` with "
        "the global batch size first, for other libraries' data after "
        "`mirrax.data.as_dataset`."
    )


def slice_rows(batch: Tree, where: slice) -> Tree:
    """Returns a slice of a batch."""
    return jax.tree.map(lambda leaf: leaf[where], batch)


def join_rows(pieces: list[Tree]) -> Tree:
    """Concatenates slices of batches."""
    if len(pieces) == 1:
        return pieces[0]
    return jax.tree.map(lambda *column: np.concatenate(column), *pieces)
