"""Where this worker waits for others, and for how long."""

from __future__ import annotations

import time

from mirrax.cluster import step_record
from mirrax.cluster.failure import PhaseReport
from mirrax.cluster.worker.tracebacks import is_compiling

_MIN_STUCK_SECONDS = 300.0
_STEPS_UNTIL_STUCK = 10.0
# A shorter compilation needs no mention.
_MIN_COMPILE_SECONDS = 1.0


class WaitScope:
    """A part of the program that may wait for other workers."""

    __slots__ = ("count", "phase", "since")

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.count = 0
        self.since = 0.0


class WaitScopes:
    """The wait scopes of this worker; the program writes, other threads read.

    Args:
        stuck_timeout: Seconds of waiting after which the others count as stuck; None to
            derive it from the longest scope.
        startup_timeout: The same during start-up.
    """

    def __init__(
        self, stuck_timeout: float | None = None, startup_timeout: float | None = None
    ) -> None:
        self.inside: WaitScope | None = None
        self.count = 0
        self.last: WaitScope | None = None
        self.longest = 0.0
        self.has_given_up = False
        self.has_broken_connection = False
        self._stuck_timeout = stuck_timeout
        self._startup_timeout = startup_timeout

    def finish_startup(self) -> None:
        """Forgets how long scopes took so far: start-up says nothing about steps."""
        self.longest = 0.0
        self._startup_timeout = None

    def exclude_pause(self, seconds: float) -> None:
        """Does not count the last seconds as a wait: this process was stopped."""
        if (wait := self.inside) is not None:
            wait.since += seconds

    def report(self) -> PhaseReport:
        wait = self.inside
        scope = wait or self.last or WaitScope("start-up")
        waiting = None if wait is None else time.monotonic() - wait.since
        return PhaseReport(
            count=scope.count,
            phase=scope.phase,
            step=step_record.last_step(),
            waiting=waiting,
            limit=self._limit(),
            is_compiling=(waiting or 0.0) > _MIN_COMPILE_SECONDS and is_compiling(),
            has_given_up=self.has_given_up,
            has_broken_connection=self.has_broken_connection,
        )

    def _limit(self) -> float:
        if self._startup_timeout is not None:
            return self._startup_timeout
        if self._stuck_timeout is not None:
            return self._stuck_timeout
        return max(_MIN_STUCK_SECONDS, _STEPS_UNTIL_STUCK * self.longest)
