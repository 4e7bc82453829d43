"""Feeds: they read the batches of a worker and split them among its replicas."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.iterator import DatasetIterator
from mirrax.errors import InvalidArgumentError
from mirrax.input import dataset_position
from mirrax.input.batch_digest import digest_of
from mirrax.input.batch_rows import (
    BatchRowReader,
    Share,
    join_rows,
    num_rows,
    sizes_at,
    slice_rows,
    split_batch,
)
from mirrax.input.dataset_position import DatasetPosition, RowState
from mirrax.trees import Tree

OpenPipeline = Callable[[int, int], DatasetIterator]
"""Opens the pipeline of a worker, given `num_workers` and its index."""


class Feed(abc.ABC):
    """Produces the parts of each step, one for each local replica.

    Args:
        num_pipelines: The number of datasets that all workers read.
        is_per_worker: Whether each worker has its own dataset, not a shard of one.
    """

    sizes: Sequence[int] | None = None
    """The row counts of the latest parts of all workers, if known."""

    digest: str | None = None
    """A digest of the latest batch, if all workers must read the same."""

    def __init__(self, num_pipelines: int, is_per_worker: bool = False) -> None:
        self._num_pipelines = num_pipelines
        self._is_per_worker = is_per_worker
        self._num_steps = 0
        self._has_ended = False

    def step(self) -> list[Tree] | None:
        parts = self._read()
        self._has_ended = parts is None
        self._num_steps += parts is not None
        return parts

    def position(self) -> DatasetPosition:
        return DatasetPosition(
            self._num_steps,
            self._num_pipelines,
            self._is_per_worker,
            self._states(),
            self._has_ended,
        )

    def seek(self, position: DatasetPosition) -> None:
        self._restore(position)
        self._num_steps = position.step
        self._has_ended = False

    @abc.abstractmethod
    def _read(self) -> list[Tree] | None:
        """Reads the next parts; None at the end."""

    @abc.abstractmethod
    def _states(self) -> Mapping[int, RowState]:
        """Returns the positions of the pipelines that this worker reads."""

    @abc.abstractmethod
    def _restore(self, position: DatasetPosition) -> None:
        """Restores the positions of these pipelines."""


class SharedBatchFeed(Feed):
    """Splits each batch among all replicas, or passes it on to a single one.

    All workers read the same batches and take their replicas' parts. So a position is
    the same for any number of workers.
    """

    def __init__(
        self, source: DatasetIterator, share: Share, has_digest: bool = False
    ) -> None:
        super().__init__(num_pipelines=1)
        self._has_digest = has_digest
        self._source = source
        self._share = share
        self._num_to_skip = 0

    @override
    def _read(self) -> list[Tree] | None:
        batch = next(self._source, self)
        if batch is self:
            return None
        if self._has_digest:
            self.digest = digest_of(batch)
        if self._num_to_skip:
            batch = slice_rows(batch, slice(self._num_to_skip, None))
            self._num_to_skip = 0
        if self._share.num_replicas == 1:
            return [batch]
        pieces = split_batch(num_rows(batch), self._share.num_replicas)
        self.sizes = [piece.stop - piece.start for piece in pieces]
        return [slice_rows(batch, pieces[i]) for i in self._share.replicas]

    @override
    def _states(self) -> Mapping[int, RowState]:
        return {0: (self._source.position(), self._num_to_skip)}

    @override
    def _restore(self, position: DatasetPosition) -> None:
        dataset_position.require_pipelines(position, 1)
        state, self._num_to_skip = position.of(0)
        self._source.seek(state)


class RowFeed(Feed):
    """Parts of known sizes, filled with rows across batch boundaries.

    Batches of unknown size are split, each into one part for every replica; a worker
    takes as many parts per step as it has replicas.

    Each worker has a pipeline. After restoring a position of another number of workers,
    the pipelines are those of the save: fewer workers read several in turn, more
    workers share one and take its rows in the order of the workers.

    Args:
        batch_size: The rows of a step, on all workers together; None if unknown.
        is_per_worker: Whether each worker has its own dataset, not a shard of one.
    """

    def __init__(
        self,
        open_pipeline: OpenPipeline,
        batch_size: int | None,
        share: Share,
        is_per_worker: bool,
    ) -> None:
        super().__init__(share.num_workers, is_per_worker)
        self._open_pipeline = open_pipeline
        self._batch_size = batch_size
        self._share = share
        self._empty: Tree = None
        self._open(share.num_workers)

    @override
    def _read(self) -> list[Tree] | None:
        ready = [p for p in self._pipelines.values() if p.fill()]
        if not ready:
            return None
        self._empty = ready[0].take_rows(0)
        own: list[Tree] = []
        for worker in self._workers_on_pipeline:
            if self._batch_size is None:
                parts = self._split(ready[self._num_steps % len(ready)])
            else:
                sizes = self._sizes_for(worker, self._batch_size)
                parts = [self._gather(size) for size in sizes]
            if worker == self._share.worker_index:
                own = parts
        return own

    @override
    def _states(self) -> Mapping[int, RowState]:
        return {index: rows.state() for index, rows in self._pipelines.items()}

    @override
    def _restore(self, position: DatasetPosition) -> None:
        if self._is_per_worker or position.is_per_worker:
            dataset_position.require_pipelines(position, self._share.num_workers)
        rows = [position.of(index) for index in self._own(position.num_pipelines)]
        self._open(position.num_pipelines)
        for pipeline, state in zip(self._pipelines.values(), rows, strict=True):
            pipeline.restore(state)

    def _own(self, num_pipelines: int) -> Sequence[int]:
        index, num_workers = self._share.worker_index, self._share.num_workers
        return range(index, num_pipelines, num_workers) or (index % num_pipelines,)

    def _open(self, num_pipelines: int) -> None:
        own = self._own(num_pipelines)
        self._pipelines = {
            i: BatchRowReader(self._open_pipeline(num_pipelines, i)) for i in own
        }
        self._num_pipelines = num_pipelines
        self._workers_on_pipeline = range(
            own[0], self._share.num_workers, num_pipelines
        )

    def _split(self, batches: BatchRowReader) -> list[Tree]:
        piece = split_batch(batches.batch_size, self._share.num_replicas)[0]
        return [batches.take_rows(piece.stop) for _ in self._share.replicas]

    def _sizes_for(self, worker: int, batch_size: int) -> tuple[int, ...]:
        share = Share(self._share.num_workers, worker, self._share.replicas_per_worker)
        return sizes_at(self._num_steps, batch_size, share)

    def _gather(self, size: int) -> Tree:
        """Returns `size` rows, fewer only at the end."""
        pipelines = list(self._pipelines.values())
        turn = self._num_steps % len(pipelines)
        pieces: list[Tree] = []
        for pipeline in pipelines[turn:] + pipelines[:turn]:
            while size and pipeline.fill():
                pieces.append(pipeline.take_rows(size))
                size -= num_rows(pieces[-1])
        return join_rows(pieces) if pieces else self._empty


class SingleReplicaFeed(Feed):
    """Whole batches for a single replica.

    After restoring a position of several workers, it reads their pipelines in turn.
    """

    def __init__(self, open_pipeline: OpenPipeline, batch_size: int | None) -> None:
        super().__init__(num_pipelines=1)
        self._open_pipeline = open_pipeline
        self._batch_size = batch_size
        self._feed: Feed = SharedBatchFeed(open_pipeline(1, 0), Share())

    @override
    def _read(self) -> list[Tree] | None:
        return self._feed.step()

    @override
    def _states(self) -> Mapping[int, RowState]:
        return self._feed.position().rows

    @override
    def _restore(self, position: DatasetPosition) -> None:
        if position.num_pipelines == 1:
            self._feed = SharedBatchFeed(self._open_pipeline(1, 0), Share())
        else:
            self._feed = RowFeed(self._open_pipeline, self._batch_size, Share(), False)
        self._feed.seek(position)
        self._num_pipelines = position.num_pipelines


class PerReplicaFeed(Feed):
    """Each replica takes a batch of its worker's datasets; empty ones at the end.

    Args:
        sources: One for all replicas of the worker, or one for each.
    """

    def __init__(self, sources: list[DatasetIterator], share: Share) -> None:
        super().__init__(share.num_workers, is_per_worker=True)
        self._sources = sources
        self._share = share

    @override
    def _read(self) -> list[Tree] | None:
        times = self._share.replicas_per_worker // len(self._sources)
        parts = [next(source, self) for source in self._sources * times]
        found = [part for part in parts if part is not self]
        if not found:
            return None
        return [_no_rows(found[0]) if part is self else part for part in parts]

    @override
    def _states(self) -> Mapping[int, RowState]:
        own = [source.position() for source in self._sources]
        return {self._share.worker_index: (own, 0)}

    @override
    def _restore(self, position: DatasetPosition) -> None:
        dataset_position.require_pipelines(position, self._share.num_workers)
        own, _ = position.of(self._share.worker_index)
        for source, state in zip(self._sources, own, strict=True):
            source.seek(state)


def _no_rows(element: Tree) -> Tree:
    if any(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(element)):
        raise InvalidArgumentError(
            "Every step needs an element for each replica. Received: fewer elements "
            "than replicas in the last step, and they are scalars. Batch the dataset, "
            "so that the other replicas can get empty batches, or use `take`."
        )
    return slice_rows(element, slice(0))
