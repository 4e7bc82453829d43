"""Feeds of workers that read different data, such as their own files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirrax.data.iterator import DatasetIterator
from mirrax.input import dataset_position
from mirrax.input.batch_rows import BatchRowReader, join_rows, num_rows
from mirrax.input.dataset_position import DatasetPosition
from mirrax.input.feeds import Feed, SharedBatchFeed
from mirrax.input.split_batch import sizes_at, split_batch
from mirrax.input.worker_share import Share
from mirrax.trees import Tree

OpenPipeline = Callable[[int, int], DatasetIterator]
"""Opens the pipeline of a worker, given `num_workers` and its index."""


class RowFeed:
    """Parts of known sizes, filled with rows across batch boundaries.

    Each worker has a pipeline. After restoring a position of another number of workers,
    the pipelines are those of the save: fewer workers read several in turn, more
    workers share one and take its rows in the order of the workers.

    Args:
        open_pipeline: Opens the pipeline of a worker.
        batch_size: The rows of a step, on all workers together.
        share: The share of this worker.
        is_per_worker: Whether each worker has its own dataset, not a shard of one.
    """

    sizes: Sequence[int] | None = None

    def __init__(
        self,
        open_pipeline: OpenPipeline,
        batch_size: int,
        share: Share,
        is_per_worker: bool,
    ) -> None:
        self._open_pipeline = open_pipeline
        self._batch_size = batch_size
        self._share = share
        self._is_per_worker = is_per_worker
        self._empty: Tree = None
        self._open(share.num_workers)

    def step(self) -> list[Tree] | None:
        ready = [p for p in self._pipelines.values() if p.has_rows()]
        self._has_ended = not ready
        if not ready:
            return None
        self._empty = ready[0].empty()
        own: list[Tree] = []
        for worker in self._workers_on_pipeline:
            parts = [self._gather(size) for size in self._sizes_for(worker)]
            if worker == self._share.worker_index:
                own = parts
        self._step += 1
        return own

    def position(self) -> DatasetPosition:
        rows = {index: pipeline.state() for index, pipeline in self._pipelines.items()}
        return DatasetPosition(
            self._step, self._num_pipelines, self._is_per_worker, rows, self._has_ended
        )

    def seek(self, position: DatasetPosition) -> None:
        if self._is_per_worker or position.is_per_worker:
            dataset_position.require_pipelines(position, self._share.num_workers)
        self._open(position.num_pipelines)
        for index, pipeline in self._pipelines.items():
            pipeline.restore(position.of(index))
        self._step = position.step

    def _open(self, num_pipelines: int) -> None:
        index, num_workers = self._share.worker_index, self._share.num_workers
        own = range(index, num_pipelines, num_workers) or (index % num_pipelines,)
        self._pipelines = {
            i: BatchRowReader(self._open_pipeline(num_pipelines, i)) for i in own
        }
        self._num_pipelines = num_pipelines
        self._workers_on_pipeline = range(own[0], num_workers, num_pipelines)
        self._step = 0
        self._has_ended = False

    def _sizes_for(self, worker: int) -> tuple[int, ...]:
        share = Share(self._share.num_workers, worker, self._share.replicas_per_worker)
        return sizes_at(self._step, self._batch_size, share)

    def _gather(self, size: int) -> Tree:
        """Returns `size` rows, fewer only at the end."""
        pipelines = list(self._pipelines.values())
        turn = self._step % len(pipelines)
        pieces: list[Tree] = []
        for pipeline in pipelines[turn:] + pipelines[:turn]:
            while size and pipeline.has_rows():
                pieces.append(pipeline.take(size))
                size -= num_rows(pieces[-1])
        return join_rows(pieces) if pieces else self._empty


class SplitBatchFeed:
    """Splits batches of unknown size, each into one part for every replica.

    Workers have different batches, so each takes as many parts per step as it has
    replicas.
    """

    sizes: Sequence[int] | None = None

    def __init__(
        self, open_pipeline: OpenPipeline, share: Share, is_per_worker: bool
    ) -> None:
        self._rows = BatchRowReader(
            open_pipeline(share.num_workers, share.worker_index)
        )
        self._share = share
        self._is_per_worker = is_per_worker
        self._step = 0

    def step(self) -> list[Tree] | None:
        if not self._rows.has_rows():
            return None
        self._step += 1
        piece = split_batch(self._rows.batch_size, self._share.num_replicas)[0]
        return [self._rows.take(piece.stop) for _ in self._share.replicas]

    def position(self) -> DatasetPosition:
        rows = {self._share.worker_index: self._rows.state()}
        return DatasetPosition(
            self._step, self._share.num_workers, self._is_per_worker, rows
        )

    def seek(self, position: DatasetPosition) -> None:
        dataset_position.require_pipelines(position, self._share.num_workers)
        self._rows.restore(position.of(self._share.worker_index))
        self._step = position.step


class SingleReplicaFeed:
    """Whole batches for a single replica.

    After restoring a position of several workers, it reads their pipelines in turn.
    """

    sizes: Sequence[int] | None = None

    def __init__(self, open_pipeline: OpenPipeline, batch_size: int) -> None:
        self._open_pipeline = open_pipeline
        self._batch_size = batch_size
        self._feed: Feed = SharedBatchFeed(open_pipeline(1, 0), Share())

    def step(self) -> list[Tree] | None:
        return self._feed.step()

    def position(self) -> DatasetPosition:
        return self._feed.position()

    def seek(self, position: DatasetPosition) -> None:
        if position.num_pipelines == 1:
            self._feed = SharedBatchFeed(self._open_pipeline(1, 0), Share())
        else:
            self._feed = RowFeed(self._open_pipeline, self._batch_size, Share(), False)
        self._feed.seek(position)
