"""The steps of a distributed dataset, prepared by a thread while one runs."""

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

    def __init__(self, feed: Feed, place: Place, depth: int) -> None:
        self._feed = feed
        self._read = functools.partial(_read_step, feed, place)
        self._depth = depth
        self._prefetcher: Prefetcher | None = None
        self._position: DatasetPosition

    def step(self) -> Step | None:
        """Returns the next step; None at the end."""
        if not self._depth:
            return self._read()
        if self._prefetcher is None:
            self._position = self._feed.position()
            read = functools.partial(_read_ahead, self._read, self._feed)
            self._prefetcher = Prefetcher(read, self._depth)
        step: Step | None
        step, self._position = self._prefetcher.next()
        return step

    def position(self) -> DatasetPosition:
        """Returns the position of the next step."""
        return self._feed.position() if self._prefetcher is None else self._position

    def seek(self, position: DatasetPosition) -> None:
        """Restores a position, or raises and keeps the one before."""
        before = self.position()
        if self._prefetcher is not None:
            self._prefetcher.stop()
            self._prefetcher = None
        try:
            self._feed.seek(position)
        except BaseException:
            self._feed.seek(before)
            raise


def _read_step(feed: Feed, place: Place) -> Step | None:
    parts = feed.step()
    return None if parts is None else place(feed, parts)


def _read_ahead(
    read: Callable[[], Step | None], feed: Feed
) -> tuple[Step | None, DatasetPosition]:
    return read(), feed.position()
