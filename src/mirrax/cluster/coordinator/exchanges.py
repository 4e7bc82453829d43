"""All-gather of small payloads through the coordinator."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from mirrax.cluster.coordinator.worker_state import WorkerState, make_failure
from mirrax.cluster.failure import Failure
from mirrax.cluster.net.messages import Message
from mirrax.errors import ProgramMismatch


@dataclasses.dataclass
class _Exchange:
    topic: str
    first: int
    payloads: dict[int, bytes] = dataclasses.field(default_factory=dict)


class Exchanges:
    """The exchanges in progress, by number."""

    def __init__(self, states: Sequence[WorkerState]) -> None:
        self._states = states
        self._open: dict[int, _Exchange] = {}

    def add(self, index: int, message: Message) -> Message | Failure | None:
        """Adds one worker's payload.

        Returns the reply for all workers once complete, a failure if the topics differ,
        and None while payloads are missing. Equal payloads of neighbours are sent once:
        usually all are equal, and else the bytes grow with the square of the workers.
        """
        number, topic = message["number"], message["topic"]
        current = self._open.setdefault(number, _Exchange(topic, index))
        if topic != current.topic:
            return self._mismatch(index, topic, current)
        current.payloads[index] = message.payload
        if len(current.payloads) < len(self._states):
            return None
        del self._open[number]
        payloads = [current.payloads[i] for i in range(len(self._states))]
        runs = [(len(list(run)), each) for each, run in itertools.groupby(payloads)]
        counts = [[count, len(payload)] for count, payload in runs]
        parts = b"".join(payload for _, payload in runs)
        return Message("exchanged", {"counts_and_sizes": counts}, parts)

    def _mismatch(self, index: int, topic: str, current: _Exchange) -> Failure:
        text = (
            "All workers must do the same things in the same order. "
            f"{self._states[index].describe()} is at {topic!r}, "
            f"{self._states[current.first].describe()} is at {current.topic!r}. "
            "Look for code that depends on the worker around one of the two."
        )
        return make_failure(ProgramMismatch, index, self._states[index], text)
