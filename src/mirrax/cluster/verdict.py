"""What ended a job: decided once by the coordinator, raised by every worker."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirrax.cluster.position import Position
from mirrax.cluster.wire import Message, WireError
from mirrax.cluster.workers import Worker
from mirrax.errors import (
    CollectiveTimeout,
    JobError,
    ProgramMismatch,
    WorkerFailed,
    WorkerLost,
)

_ERRORS: dict[str, type[JobError]] = {
    kind.__name__: kind
    for kind in (WorkerLost, WorkerFailed, CollectiveTimeout, ProgramMismatch)
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Which error all workers raise, about whom, and why."""

    error: str
    message: str
    worker: int | None = None
    host: str = ""
    phase: str = ""
    step: int | None = None

    def as_message(self) -> Message:
        """Returns the message that tells it to a worker."""
        return Message("verdict", dataclasses.asdict(self))

    def to_error(self, position: Position | None = None) -> JobError:
        """Returns the error to raise.

        Args:
            position: Where this worker waits; it is exact, while what is known of
                the other one may be half a second old.
        """
        here = "" if position is None else f" Here: {position.describe()}."
        return _ERRORS[self.error](
            self.message + here,
            worker=self.worker,
            host=self.host,
            phase=self.phase if position is None else position.phase,
            step=self.step if position is None else position.step,
        )


def read_verdict(message: Message) -> Verdict:
    """Returns the verdict in a message."""
    if message["error"] not in _ERRORS:
        raise WireError(f"There is no error {message['error']!r}.")
    return Verdict(**{f.name: message[f.name] for f in dataclasses.fields(Verdict)})


def judge(error: type[JobError], index: int, seat: Any, text: str) -> Verdict:
    """Returns a verdict about one worker, the rest of it from its seat."""
    position: Position = seat.position
    worker: Worker = seat.worker
    return Verdict(
        error=error.__name__,
        message=text,
        worker=index,
        host=seat.host or worker.host,
        phase=position.phase,
        step=position.step,
    )
