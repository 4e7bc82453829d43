"""How far this worker has come, and what it waits for."""

from __future__ import annotations

import time
import weakref
from typing import Any

import jax

from mirrax.cluster.failure import Position

_MIN_STUCK_SECONDS = 300.0
_STEPS_UNTIL_STUCK = 10.0


class Stretch:
    """A part of the program in which this worker may wait for the others."""

    __slots__ = ("count", "phase", "since", "step")

    def __init__(self, phase: str, step: int | None) -> None:
        self.phase = phase
        self.step = step
        self.count = 0
        self.since = 0.0


class Progress:
    """The stretches of this worker so far; the program writes, other threads read.

    Args:
        stuck_timeout: After how many seconds of waiting the others count as stuck;
            None to learn it from how long the stretches take.
    """

    def __init__(self, stuck_timeout: float | None = None) -> None:
        self.inside: Stretch | None = None
        self.count = 0
        self.last: Stretch | None = None
        self.longest = 0.0
        self._stuck_timeout = stuck_timeout
        self._pending: tuple[weakref.ref[Any], Stretch] | None = None

    def watch(self, value: jax.Array, stretch: Stretch) -> None:
        """Counts as waiting in `stretch` until JAX has computed `value`."""
        stretch.count = self.count
        stretch.since = time.monotonic()
        self._pending = (weakref.ref(value), stretch)

    def forget_times(self) -> None:
        """Learns anew from here how long stretches take."""
        self.longest = 0.0

    def find_wait(self) -> Stretch | None:
        """Returns where the program waits, or what JAX has not computed yet."""
        if self.inside is not None:
            return self.inside
        pending = self._pending
        if pending is None:
            return None
        value = pending[0]()
        if value is None or value.is_deleted() or value.is_ready():
            if self._pending is pending:
                self._pending = None
            return None
        return pending[1]

    def position(self) -> Position:
        """Returns where the worker is, for the others."""
        wait = self.find_wait()
        stretch = wait or self.last
        if stretch is None:
            return Position(self.count)
        return Position(
            count=stretch.count,
            phase=stretch.phase,
            step=stretch.step,
            waiting=None if wait is None else time.monotonic() - wait.since,
            limit=self._limit(),
        )

    def _limit(self) -> float:
        if self._stuck_timeout is not None:
            return self._stuck_timeout
        return max(_MIN_STUCK_SECONDS, _STEPS_UNTIL_STUCK * self.longest)
