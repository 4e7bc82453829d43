"""Reads batches row by row, with a position that can be saved."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from mirrax.data.iterator import DatasetIterator
from mirrax.errors import InvalidArgumentError
from mirrax.input.dataset_position import RowState
from mirrax.trees import Tree


class BatchRowReader:
    """Reads rows across batches; its state is the position of the next row."""

    def __init__(self, source: DatasetIterator) -> None:
        self._source = source
        self._batch: Tree = None
        self._used = 0
        self._count = 0
        self._before: Any = None

    def has_rows(self) -> bool:
        """Returns whether there is another row; may read the next batch."""
        while self._used == self._count:
            before = self._source.save_state()
            batch = next(self._source, None)
            if batch is None:
                return False
            self._before, self._batch = before, batch
            self._used, self._count = 0, num_rows(batch)
        return True

    def take(self, limit: int) -> Tree:
        """Returns 1 to `limit` rows of the current batch."""
        start = self._used
        self._used = min(start + limit, self._count)
        return slice_rows(self._batch, slice(start, self._used))

    @property
    def batch_size(self) -> int:
        """The size of the current batch."""
        return self._count

    def empty(self) -> Tree:
        """Returns an empty slice of the current batch."""
        return slice_rows(self._batch, slice(0))

    def state(self) -> RowState:
        """Returns the position of the next row."""
        if self._used == self._count:
            return self._source.save_state(), 0
        return self._before, self._used

    def restore(self, state: RowState) -> None:
        """Restores a position."""
        before, used = state
        self._source.restore_state(before)
        self._used = self._count = 0
        if used and self.has_rows():
            self.take(used)


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
