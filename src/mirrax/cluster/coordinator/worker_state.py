"""One worker, as the coordinator sees it."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirrax.cluster.failure import Failure, Position
from mirrax.cluster.membership import Worker
from mirrax.errors import JobError


@dataclasses.dataclass
class WorkerState:
    """What is known about one worker: absent, present, left (cleanly) or gone."""

    worker: Worker
    state: str = "absent"
    host: str = ""
    pid: int = 0
    configuration: dict[str, Any] = dataclasses.field(default_factory=dict)
    position: Position = dataclasses.field(default_factory=Position)
    heard: float = 0.0
    has_given_up: bool = False
    stack: str = ""
    line: str = ""
    death: str = ""

    @property
    def has_come(self) -> bool:
        """Whether it has ever joined."""
        return self.state != "absent"

    @property
    def is_present(self) -> bool:
        """Whether it is connected."""
        return self.state == "present"

    def come(self, body: dict[str, Any], now: float) -> None:
        """Seats the worker with what it says about itself."""
        self.state = "present"
        self.host = str(body["hostname"])
        self.pid = int(body["pid"])
        self.configuration = dict(body["configuration"])
        self.heard = now

    def waited(self, now: float) -> float | None:
        """Returns for how long it has been waiting by now; None if it is not."""
        if self.position.waiting is None:
            return None
        return self.position.waiting + now - self.heard

    def describe(self) -> str:
        """Returns name, place and process in words."""
        place = f"{self.worker.address}, process {self.pid} on {self.host}"
        return f"{self.worker.name} ({place if self.host else self.worker.address})"


def failure_of(
    error: type[JobError], index: int, state: WorkerState, text: str, details: str = ""
) -> Failure:
    """Returns a failure about one worker, the rest of it from its state."""
    return Failure(
        error=error.__name__,
        message=text,
        details=details,
        worker=index,
        host=state.host or state.worker.host,
        phase=state.position.phase,
        step=state.position.step,
    )
