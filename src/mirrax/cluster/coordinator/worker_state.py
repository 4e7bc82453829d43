"""The coordinator's record of one worker."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirrax.cluster.failure import Failure, PhaseReport
from mirrax.cluster.membership import Worker
from mirrax.errors import JobError


@dataclasses.dataclass
class WorkerState:
    """One worker; its `state` is not joined, connected, left (cleanly) or lost.

    Args:
        report_loss_at: When its loss becomes the job's failure; None if it is not lost.
        end_deadline: Until when its exit is awaited, after it left.
        next_report: When it is next told for whom it waits.
        next_stack_request: When it is next asked for its current line.
        stack_deadline: Until when a failure waits for its stack, if it was asked.
    """

    index: int
    worker: Worker
    state: str = "not joined"
    host: str = ""
    pid: int = 0
    configuration: dict[str, Any] = dataclasses.field(default_factory=dict)
    progress: PhaseReport = dataclasses.field(default_factory=PhaseReport)
    last_heard: float = 0.0
    stack: str = ""
    line: str = ""
    exit_report: str = ""
    report_loss_at: float | None = None
    end_deadline: float = 0.0
    next_report: float = 0.0
    next_stack_request: float = 0.0
    stack_deadline: float | None = None

    @property
    def has_joined(self) -> bool:
        return self.state != "not joined"

    @property
    def is_connected(self) -> bool:
        return self.state == "connected"

    def has_finished(self, now: float) -> bool:
        """Returns whether it left and ended; until then its exit may be a failure."""
        return self.state == "left" and now >= self.end_deadline

    def join(self, body: dict[str, Any], now: float) -> None:
        self.state = "connected"
        self.host = str(body["hostname"])
        self.pid = int(body["pid"])
        self.configuration = dict(body["configuration"])
        self.last_heard = now

    def waited(self, now: float) -> float | None:
        """Returns how long it has been waiting; None if it is not."""
        if self.progress.waiting is None:
            return None
        return self.progress.waiting + now - self.last_heard

    def describe(self) -> str:
        process = f", process {self.pid} on {self.host}" if self.host else ""
        return f"{self.worker.name} ({self.worker.address}{process})"

    def make_failure(
        self, error: type[JobError], text: str, details: str = ""
    ) -> Failure:
        """Returns a failure of the job that names this worker."""
        return Failure(
            error=error.__name__,
            message=text,
            details=details,
            worker=self.index,
            host=self.host or self.worker.host,
            phase=self.progress.phase,
            step=self.progress.step,
        )
