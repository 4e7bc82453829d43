"""The steps of a distributed dataset: read by a thread before they are needed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from mirrax.data.thread_pool import Prefetcher
from mirrax.input.dataset_position import DatasetPosition
from mirrax.input.feeds import Feed
from mirrax.trees import Tree


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
