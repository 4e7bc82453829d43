"""Feeds of workers that each read something else, such as files of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirrax.data.iterator import DatasetIterator
from mirrax.input import dataset_position
from mirrax.input.batch_rows import Rows, join, num_rows
from mirrax.input.dataset_position import Position
from mirrax.input.feeds import Batches, Feed
from mirrax.input.split_batch import sizes_at, split_batch
from mirrax.input.worker_share import Share
from mirrax.trees import Tree

OpenPipeline = Callable[[int, int], DatasetIterator]
"""Opens what worker `index` of `num_workers` reads, given both."""


class Flowing:
    """Parts of known sizes, cut from rows that flow across the borders of batches.

    There is a pipeline for each worker. Where another number of workers saved the
    position, the pipelines are those of then: fewer workers read several in turn, more
    workers share one, and take their rows in the order of the workers.

    Args:
        open_pipeline: Opens the pipeline of a worker.
        batch_size: How many rows a step has, on all workers together.
        share: Which worker this is.
        is_own: Whether a pipeline is a dataset of a worker's own, not a share of one.
    """

    sizes: Sequence[int] | None = None

    def __init__(
        self, open_pipeline: OpenPipeline, batch_size: int, share: Share, is_own: bool
    ) -> None:
        self._open_pipeline = open_pipeline
        self._batch_size = batch_size
        self._share = share
        self._is_own = is_own
        self._empty: Tree = None
        self._open(share.num_workers)

    def step(self) -> list[Tree] | None:
        ready = [p for p in self._pipelines.values() if p.has_rows()]
        self._has_ended = not ready
        if not ready:
            return None
        self._empty = ready[0].none()
        own: list[Tree] = []
        for worker in self._sharers:
            parts = [self._gather(size) for size in self._sizes_for(worker)]
            if worker == self._share.worker_index:
                own = parts
        self._step += 1
        return own

    def position(self) -> Position:
        rows = {index: pipeline.state() for index, pipeline in self._pipelines.items()}
        return Position(
            self._step, self._num_pipelines, self._is_own, rows, self._has_ended
        )

    def go_to(self, position: Position) -> None:
        if self._is_own or position.is_own:
            dataset_position.require_pipelines(position, self._share.num_workers)
        self._open(position.num_pipelines)
        for index, pipeline in self._pipelines.items():
            pipeline.restore(position.of(index))
        self._step = position.step

    def _open(self, num_pipelines: int) -> None:
        index, num_workers = self._share.worker_index, self._share.num_workers
        own = range(index, num_pipelines, num_workers) or (index % num_pipelines,)
        self._pipelines = {i: Rows(self._open_pipeline(num_pipelines, i)) for i in own}
        self._num_pipelines = num_pipelines
        self._sharers = range(own[0], num_workers, num_pipelines)
        self._step = 0
        self._has_ended = False

    def _sizes_for(self, worker: int) -> tuple[int, ...]:
        share = Share(self._share.num_workers, worker, self._share.replicas_per_worker)
        return sizes_at(self._step, self._batch_size, share)

    def _gather(self, size: int) -> Tree:
        """Returns so many rows, and fewer only at the end."""
        pipelines = list(self._pipelines.values())
        turn = self._step % len(pipelines)
        pieces: list[Tree] = []
        for pipeline in pipelines[turn:] + pipelines[:turn]:
            while size and pipeline.has_rows():
                pieces.append(pipeline.take(size))
                size -= num_rows(pieces[-1])
        return join(pieces) if pieces else self._empty


class Pieces:
    """Batches of unknown size, each cut on its own into a piece for every replica.

    A worker has batches of its own, so it takes as many pieces per step as it has
    replicas.
    """

    sizes: Sequence[int] | None = None

    def __init__(self, open_pipeline: OpenPipeline, share: Share, is_own: bool) -> None:
        self._rows = Rows(open_pipeline(share.num_workers, share.worker_index))
        self._share = share
        self._is_own = is_own
        self._step = 0

    def step(self) -> list[Tree] | None:
        if not self._rows.has_rows():
            return None
        self._step += 1
        piece = split_batch(self._rows.batch_size, self._share.num_replicas)[0]
        return [self._rows.take(piece.stop) for _ in self._share.replicas]

    def position(self) -> Position:
        rows = {self._share.worker_index: self._rows.state()}
        return Position(self._step, self._share.num_workers, self._is_own, rows)

    def go_to(self, position: Position) -> None:
        dataset_position.require_pipelines(position, self._share.num_workers)
        self._rows.restore(position.of(self._share.worker_index))
        self._step = position.step


class Single:
    """Batches as they come, for the only replica of the only worker.

    Where several workers saved the position, it reads their pipelines in turn.
    """

    sizes: Sequence[int] | None = None

    def __init__(self, open_pipeline: OpenPipeline, batch_size: int) -> None:
        self._open_pipeline = open_pipeline
        self._batch_size = batch_size
        self._feed: Feed = Batches(open_pipeline(1, 0), Share())

    def step(self) -> list[Tree] | None:
        return self._feed.step()

    def position(self) -> Position:
        return self._feed.position()

    def go_to(self, position: Position) -> None:
        if position.num_pipelines == 1:
            self._feed = Batches(self._open_pipeline(1, 0), Share())
        else:
            self._feed = Flowing(self._open_pipeline, self._batch_size, Share(), False)
        self._feed.go_to(position)
