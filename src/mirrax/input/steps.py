"""The steps of a distributed dataset: prepared by a thread, in step on all workers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mirrax import trees
from mirrax.data.thread_pool import Prefetcher
from mirrax.devices.peers import Peers, exchange_json
from mirrax.input.batch_digest import BatchLog
from mirrax.input.dataset_position import DatasetPosition
from mirrax.input.feeds import Feed
from mirrax.trees import Tree
from mirrax.values.layouts import Parts, ShapeDtype
from mirrax.values.per_replica import PerReplica


class Step(NamedTuple):
    """One step of a distributed dataset.

    Args:
        element: What the user gets.
        digest: A digest of the batch it is a part of, if all workers read the same.
    """

    element: Tree
    digest: str | None = None


Place = Callable[[Feed, list[Tree]], Step]
"""Makes a step of the latest parts of a feed."""


class StepReader:
    """Reads steps, `depth` of them in advance.

    The position is that after the last returned step.
    """

    _prefetcher: Prefetcher | None
    _position: DatasetPosition

    def __init__(self, open_feed: Callable[[], Feed], place: Place, depth: int) -> None:
        self._open_feed = open_feed
        self._place = place
        self._depth = depth
        self._start(open_feed())

    def step(self) -> Step | None:
        """Returns the next step; None at the end."""
        if not self._depth:
            return self._read()
        if self._prefetcher is None:
            self._position = self._feed.position()
            # Without `self`, whose end ends the thread.
            read, feed = self._read, self._feed
            self._prefetcher = Prefetcher(
                lambda: (read(), feed.position()), self._depth
            )
        step: Step | None
        step, self._position = self._prefetcher.next()
        return step

    def position(self) -> DatasetPosition:
        return self._feed.position() if self._prefetcher is None else self._position

    def seek(self, position: DatasetPosition) -> None:
        """Restores a position, or raises and keeps the one before."""
        # In a new feed: a thread may be waiting for the old one's next step.
        feed = self._open_feed()
        feed.seek(position)
        self._start(feed)

    def _start(self, feed: Feed) -> None:
        self._feed = feed
        self._read = functools.partial(_read_step, feed, self._place)
        self._prefetcher = None


def _read_step(feed: Feed, place: Place) -> Step | None:
    parts = feed.step()
    return None if parts is None else place(feed, parts)


Synchronize = Callable[[Step | None], Step | None]
"""Returns this worker's next step, given what it read; None at the end of all."""


def log_batch(log: BatchLog, step: Step | None) -> Step | None:
    """Logs the batch that all workers read, to be compared now and then."""
    if step is not None and step.digest is not None:
        log.append(step.digest)
    return step


class StepSynchronizer:
    """Gives workers without data empty batches until all are done.

    At each step the workers exchange the shapes of their parts.
    """

    def __init__(self, peers: Peers, make_empty: Callable[[], Tree]) -> None:
        self._peers = peers
        self._make_empty = make_empty

    def __call__(self, step: Step | None) -> Step | None:
        """Returns this worker's next step; None when all workers have ended."""
        own = None if step is None else _kinds(step.element)
        answers = exchange_json(self._peers, "the next step of a dataset", own)
        if all(answer is None for answer in answers):
            return None
        if None in answers:
            empty = self._make_empty()
            answers = [_kinds(empty) if a is None else a for a in answers]
            step = Step(empty) if step is None else step
        assert step is not None
        columns = zip(*answers, strict=True)
        for leaf, column in zip(_distributed(step.element), columns, strict=True):
            kinds = tuple(
                (tuple(shape), dtype) for own in column for shape, dtype in own
            )
            assert isinstance(leaf.layout, Parts)
            leaf.layout = dataclasses.replace(leaf.layout, shapes=kinds)
        return step


def _kinds(element: Tree) -> list[list[ShapeDtype]]:
    return [[_kind(part) for part in leaf.values] for leaf in _distributed(element)]


def _kind(part: Any) -> ShapeDtype:
    part = part if hasattr(part, "dtype") else np.asarray(part, object)
    return tuple(part.shape), str(part.dtype)


def _distributed(element: Tree) -> list[PerReplica]:
    return [leaf for leaf in trees.leaves(element) if isinstance(leaf, PerReplica)]
