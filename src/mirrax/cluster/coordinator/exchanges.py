"""Payloads that all workers give each other, collected until all have come."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mirrax.cluster.coordinator.worker_state import WorkerState, failure_of
from mirrax.cluster.failure import Failure
from mirrax.cluster.net.messages import Message
from mirrax.errors import ProgramMismatch


@dataclasses.dataclass
class _Exchange:
    topic: str
    first: int
    payloads: dict[int, bytes] = dataclasses.field(default_factory=dict)


class Exchanges:
    """The exchanges that are under way, by their number."""

    def __init__(self, states: Sequence[WorkerState]) -> None:
        self._states = states
        self._open: dict[int, _Exchange] = {}

    def add(self, index: int, message: Message) -> Message | Failure | None:
        """Takes in what one worker gives.

        Returns the answer for all when it was the last, a failure when the workers are
        at different topics, and None while some are missing.
        """
        number, topic = message["number"], message["topic"]
        current = self._open.setdefault(number, _Exchange(topic, index))
        if topic != current.topic:
            return self._refuse(index, topic, current)
        current.payloads[index] = message.payload
        if len(current.payloads) < len(self._states):
            return None
        del self._open[number]
        payloads = [current.payloads[i] for i in range(len(self._states))]
        sizes = [len(payload) for payload in payloads]
        return Message("exchanged", {"sizes": sizes}, b"".join(payloads))

    def _refuse(self, index: int, topic: str, current: _Exchange) -> Failure:
        text = (
            "All workers must do the same things in the same order. "
            f"{self._states[index].describe()} is at {topic!r}, "
            f"{self._states[current.first].describe()} is at {current.topic!r}. "
            "Look for code that depends on the worker around one of the two."
        )
        return failure_of(ProgramMismatch, index, self._states[index], text)
