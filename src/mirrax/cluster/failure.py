"""A worker's progress, and the failure that ends a job, as messages."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirrax.cluster.net.messages import Message
from mirrax.errors import (
    CollectiveTimeout,
    JobError,
    ProgramMismatch,
    WorkerFailed,
    WorkerLost,
)


@dataclasses.dataclass(frozen=True)
class PhaseReport:
    """A worker's progress.

    Args:
        count: How many collective phases it has entered.
        phase: The current or latest collective phase.
        step: The last step that it has completed, if it reports them.
        waiting: Seconds it has been waiting; None if it is not.
        limit: Seconds of waiting after which the others count as stuck.
        is_compiling: Whether it compiles a program meanwhile.
        has_given_up: Whether the others count as stuck, whatever the limit.
        has_broken_connection: Whether a connection to another worker broke.
    """

    count: int = 0
    phase: str = "start-up"
    step: int | None = None
    waiting: float | None = None
    limit: float = float("inf")
    is_compiling: bool = False
    has_given_up: bool = False
    has_broken_connection: bool = False

    def as_fields(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def describe(self) -> str:
        """Returns phase and step as text.

        >>> PhaseReport(3, "run", step=7).describe()
        "phase 'run' after step 7"
        """
        step = "" if self.step is None else f" after step {self.step}"
        return f"phase '{self.phase}'{step}"


_ERRORS: dict[str, type[JobError]] = {
    kind.__name__: kind
    for kind in (WorkerLost, WorkerFailed, CollectiveTimeout, ProgramMismatch)
}


@dataclasses.dataclass(frozen=True)
class Failure:
    """The error that all workers raise.

    Args:
        error: The name of the error's class.
        message: What happened, and the fix.
        details: A traceback or a stack, or nothing.
        worker: The index of the failed worker, if it is one.
    """

    error: str
    message: str
    details: str = ""
    worker: int | None = None
    host: str = ""
    phase: str = ""
    step: int | None = None

    def as_message(self) -> Message:
        return Message("failure", dataclasses.asdict(self))

    def to_error(self, progress: PhaseReport | None = None) -> JobError:
        """Returns the error to raise.

        Args:
            progress: Where this worker waits, if it does.
        """
        here = "" if progress is None else f" Here: {progress.describe()}."
        details = f"\n{self.details.rstrip()}" if self.details else ""
        return _ERRORS[self.error](
            self.message + here + details,
            worker=self.worker,
            host=self.host,
            phase=self.phase if progress is None else progress.phase,
            step=self.step if progress is None else progress.step,
        )
