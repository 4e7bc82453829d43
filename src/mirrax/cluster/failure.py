"""Where a worker is in its program, and the failure that ends a job."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirrax.cluster.net.messages import Message, WireError
from mirrax.errors import (
    CollectiveTimeout,
    JobError,
    ProgramMismatch,
    WorkerFailed,
    WorkerLost,
)


@dataclasses.dataclass(frozen=True)
class Position:
    """How far a worker has come.

    Args:
        count: How many times it has waited for the others, or is about to.
        phase: What it does, or did last, together with the others.
        step: In which step.
        waiting: For how many seconds it has been waiting; None if it is not.
        limit: After how many seconds it takes the others for stuck.
    """

    count: int = 0
    phase: str = "start-up"
    step: int | None = None
    waiting: float | None = None
    limit: float = float("inf")

    def as_fields(self) -> dict[str, Any]:
        """Returns the position as fields of a message."""
        return dataclasses.asdict(self)

    def describe(self) -> str:
        """Returns phase and step in words.

        >>> Position(3, "run", step=7).describe()
        "phase 'run', step 7"
        """
        step = "" if self.step is None else f", step {self.step}"
        return f"phase '{self.phase}'{step}"


def read_position(fields: dict[str, Any]) -> Position:
    """Returns the position that the fields of a message tell."""
    names = [field.name for field in dataclasses.fields(Position)]
    return Position(**{name: fields[name] for name in names if name in fields})


_ERRORS: dict[str, type[JobError]] = {
    kind.__name__: kind
    for kind in (WorkerLost, WorkerFailed, CollectiveTimeout, ProgramMismatch)
}


@dataclasses.dataclass(frozen=True)
class Failure:
    """Which error all workers raise, about whom, and why.

    Args:
        error: The name of the error's class.
        message: What happened and what to do, in a few sentences.
        details: A traceback or a stack, or nothing.
        worker: The index of the worker it happened to, if it is one.
        host: Where that worker runs.
        phase: What it did last.
        step: In which step.
    """

    error: str
    message: str
    details: str = ""
    worker: int | None = None
    host: str = ""
    phase: str = ""
    step: int | None = None

    def as_message(self) -> Message:
        """Returns the message that tells it to a worker."""
        return Message("failure", dataclasses.asdict(self))

    def to_error(self, position: Position | None = None) -> JobError:
        """Returns the error to raise.

        Args:
            position: Where this worker waits; it is exact, while what is known of
                the other one may be half a second old.
        """
        here = "" if position is None else f" Here: {position.describe()}."
        details = f"\n{self.details.rstrip()}" if self.details else ""
        return _ERRORS[self.error](
            self.message + here + details,
            worker=self.worker,
            host=self.host,
            phase=self.phase if position is None else position.phase,
            step=self.step if position is None else position.step,
        )


def read_failure(message: Message) -> Failure:
    """Returns the failure in a message."""
    if message["error"] not in _ERRORS:
        raise WireError(f"There is no error {message['error']!r}.")
    return Failure(**{f.name: message[f.name] for f in dataclasses.fields(Failure)})
