"""This worker's progress: phases that wait for other workers."""

from __future__ import annotations

import time
import weakref
from typing import Any

import jax

from mirrax.cluster.failure import ProgressReport

_MIN_STUCK_SECONDS = 300.0
_STEPS_UNTIL_STUCK = 10.0


class WaitScope:
    """A part of the program that may wait for other workers."""

    __slots__ = ("count", "phase", "since", "step")

    def __init__(self, phase: str, step: int | None) -> None:
        self.phase = phase
        self.step = step
        self.count = 0
        self.since = 0.0


class Progress:
    """The wait scopes of this worker; the program writes, other threads read.

    Args:
        stuck_timeout: Seconds of waiting after which the others count as stuck; None to
            derive it from the longest scope.
    """

    def __init__(self, stuck_timeout: float | None = None) -> None:
        self.inside: WaitScope | None = None
        self.count = 0
        self.last: WaitScope | None = None
        self.longest = 0.0
        self._stuck_timeout = stuck_timeout
        self._pending: tuple[weakref.ref[Any], WaitScope] | None = None

    def watch(self, value: jax.Array, scope: WaitScope) -> None:
        """Counts as waiting in `scope` until JAX has computed `value`."""
        scope.count = self.count
        scope.since = time.monotonic()
        self._pending = (weakref.ref(value), scope)

    def reset_times(self) -> None:
        """Forgets how long scopes took so far."""
        self.longest = 0.0

    def find_wait(self) -> WaitScope | None:
        """Returns the scope in which the program, or JAX in the background, waits."""
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

    def report(self) -> ProgressReport:
        """Returns the progress to send to the coordinator."""
        wait = self.find_wait()
        scope = wait or self.last
        if scope is None:
            return ProgressReport(self.count)
        return ProgressReport(
            count=scope.count,
            phase=scope.phase,
            step=scope.step,
            waiting=None if wait is None else time.monotonic() - wait.since,
            limit=self._limit(),
        )

    def _limit(self) -> float:
        if self._stuck_timeout is not None:
            return self._stuck_timeout
        return max(_MIN_STUCK_SECONDS, _STEPS_UNTIL_STUCK * self.longest)
