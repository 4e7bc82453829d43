"""Steps of a distributed dataset that a thread prepares while one runs."""

from __future__ import annotations

import functools
from typing import Any, Protocol

from mirrax.data.thread_pool import Prefetcher


class Steps(Protocol):
    """Produces steps, with a position."""

    def step(self) -> Any:
        """Returns the next step; None at the end."""

    def position(self) -> Any:
        """Returns the position of the next step."""

    def seek(self, position: Any) -> None:
        """Restores a position."""


class PrefetchedSteps:
    """Steps, `depth` of them prepared in advance.

    The position is that after the last returned step.
    """

    def __init__(self, steps: Steps, depth: int) -> None:
        self._steps = steps
        self._depth = depth
        self._prefetcher: Prefetcher | None = None
        self._position = steps.position()

    def step(self) -> Any:
        if self._prefetcher is None:
            read = functools.partial(_read, self._steps)
            self._prefetcher = Prefetcher(read, self._depth)
        step, self._position = self._prefetcher.next()
        return step

    def position(self) -> Any:
        return self._position

    def seek(self, position: Any) -> None:
        if self._prefetcher is not None:
            self._prefetcher.stop()
            self._prefetcher = None
        self._steps.seek(position)
        self._position = position


def _read(steps: Steps) -> tuple[Any, Any]:
    return steps.step(), steps.position()
