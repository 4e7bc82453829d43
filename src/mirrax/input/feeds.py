"""Feeds: produce the parts of each step, one for each replica of this worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import jax
import numpy as np

from mirrax.data.iterator import DatasetIterator
from mirrax.errors import InvalidArgumentError
from mirrax.input import dataset_position
from mirrax.input.batch_rows import num_rows, slice_rows
from mirrax.input.dataset_position import DatasetPosition
from mirrax.input.split_batch import split_batch
from mirrax.input.worker_share import Share
from mirrax.trees import Tree


class Feed(Protocol):
    """Produces the parts of each step, one for each local replica."""

    sizes: Sequence[int] | None
    """The row counts of the latest parts of all workers, if known."""

    def step(self) -> list[Tree] | None:
        """Returns the next parts; None at the end."""

    def position(self) -> DatasetPosition:
        """Returns the position of the next step."""

    def seek(self, position: DatasetPosition) -> None:
        """Restores a position."""


class SharedBatchFeed:
    """Splits each batch among all replicas, or passes it on to a single one.

    All workers read the same batches and take their replicas' parts. So a position is
    the same for any number of workers.
    """

    def __init__(self, source: DatasetIterator, share: Share) -> None:
        self.sizes: Sequence[int] | None = None
        self._source = source
        self._share = share
        self._step = 0
        self._num_to_skip = 0

    def step(self) -> list[Tree] | None:
        batch = next(self._source, self)
        if batch is self:
            return None
        if self._num_to_skip:
            batch, self._num_to_skip = (
                slice_rows(batch, slice(self._num_to_skip, None)),
                0,
            )
        self._step += 1
        if self._share.num_replicas == 1:
            return [batch]
        pieces = split_batch(num_rows(batch), self._share.num_replicas)
        self.sizes = [piece.stop - piece.start for piece in pieces]
        return [slice_rows(batch, pieces[i]) for i in self._share.replicas]

    def position(self) -> DatasetPosition:
        state = (self._source.save_state(), self._num_to_skip)
        return DatasetPosition(self._step, 1, False, {0: state})

    def seek(self, position: DatasetPosition) -> None:
        dataset_position.require_pipelines(position, 1)
        state, self._num_to_skip = position.of(0)
        self._source.restore_state(state)
        self._step = position.step


class PerReplicaFeed:
    """Each replica takes a batch of its worker's datasets; empty ones at the end."""

    sizes: Sequence[int] | None = None

    def __init__(self, sources: list[DatasetIterator], share: Share) -> None:
        self._sources = sources
        self._share = share
        self._step = 0

    def step(self) -> list[Tree] | None:
        parts = [next(source, self) for source in self._sources]
        found = [part for part in parts if part is not self]
        if not found:
            return None
        self._step += 1
        return [_no_rows(found[0]) if part is self else part for part in parts]

    def position(self) -> DatasetPosition:
        own = [source.save_state() for source in self._distinct()]
        rows = {self._share.worker_index: (own, 0)}
        return DatasetPosition(self._step, self._share.num_workers, True, rows)

    def seek(self, position: DatasetPosition) -> None:
        dataset_position.require_pipelines(position, self._share.num_workers)
        own, _ = position.of(self._share.worker_index)
        for source, state in zip(self._distinct(), own, strict=True):
            source.restore_state(state)
        self._step = position.step

    def _distinct(self) -> list[DatasetIterator]:
        return list({id(source): source for source in self._sources}.values())


def _no_rows(element: Tree) -> Tree:
    if any(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(element)):
        raise InvalidArgumentError(
            "Each replica takes an element per step, and a step needs one for all. "
            "Received: fewer scalars than replicas in the last step. Batch the "
            "dataset, so that the rest can get empty batches, or use `take`."
        )
    return slice_rows(element, slice(0))
