"""What the coordinator knows about the workers, and what it tells them.

Pure bookkeeping: messages and moments go in, messages come out in `outbox`. The sockets
are in `server.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from mirrax.cluster.coordinator import liveness
from mirrax.cluster.coordinator.exchanges import Exchanges
from mirrax.cluster.coordinator.liveness import Reports
from mirrax.cluster.coordinator.worker_state import WorkerState, failure_of
from mirrax.cluster.failure import Failure, read_position
from mirrax.cluster.membership import Worker
from mirrax.cluster.net.messages import Message
from mirrax.errors import CollectiveTimeout, ProgramMismatch, WorkerFailed, WorkerLost

BEAT_SECONDS = 1.0
"""How often the coordinator gives a sign of life."""

# How long a suspect has to tell where it is before the failure goes out without.
_STACK_SECONDS = 1.0
_MAX_REFUSED = 5


class JobState:
    """The state of one job.

    Args:
        workers: Who takes part.
        join_timeout: How many seconds all of them have to join.
        silence_timeout: After how many seconds without a word a worker counts as lost.
        now: The present moment, in seconds.
        death_wait: How many seconds `explain_death` may come later than the death.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        join_timeout: float,
        silence_timeout: float,
        now: float,
        death_wait: float = 0.0,
    ) -> None:
        self.states = [WorkerState(worker) for worker in workers]
        self.outbox: list[tuple[int, Message]] = []
        self.failure: Failure | None = None
        self.has_started = False
        self._refused: dict[str, None] = {}
        self._join_deadline = now + join_timeout
        self._join_timeout = join_timeout
        self._is_late = False
        self._silence_timeout = silence_timeout
        self._death_wait = death_wait
        self._exchanges = Exchanges(self.states)
        self._reports = Reports(self.states, now, join_timeout)
        self._next_beat = now + BEAT_SECONDS
        self._asked: dict[int, float] = {}
        self._deaths: dict[int, float] = {}

    @property
    def present(self) -> list[int]:
        """The workers that are connected."""
        return [index for index, state in enumerate(self.states) if state.is_present]

    @property
    def is_over(self) -> bool:
        """Whether nobody is or will be there any more."""
        # Who comes late to a job that has failed is still told why.
        all_came = self._is_late or all(state.has_come for state in self.states)
        return all_came and not self.present and not self.is_waiting_for_word

    @property
    def is_waiting_for_word(self) -> bool:
        """Whether somebody has died, and it is not yet known how."""
        return bool(self._deaths)

    def join(self, index: int, body: dict[str, Any], now: float) -> str | None:
        """Seats a worker, or returns why it cannot be seated."""
        state = self.states[index]
        if state.has_come:
            return (
                f"Each worker joins once. Received: {state.worker} again, from "
                f"{body['hostname']} (process {body['pid']}); the first is "
                f"{state.host} "
                f"(process {state.pid}). Give each process its own task index, and "
                "start all workers anew when one has ended."
            )
        state.come(body, now)
        if self.failure is not None:
            self.outbox.append((index, self.failure.as_message()))
            return None
        different = self._find_different()
        if different is not None:
            self._decide(different)
        elif all(state.has_come for state in self.states):
            self.has_started = True
            hosts = [state.host for state in self.states]
            self._tell_all(Message("go", {"hosts": hosts}))
        return None

    def note_refusal(self, who: str) -> None:
        """Notes who wanted to join and may not: perhaps the one that is missing."""
        if len(self._refused) < _MAX_REFUSED:
            self._refused[who] = None

    def receive(self, index: int, message: Message, now: float) -> None:
        """Takes in what a worker says."""
        state = self.states[index]
        state.heard = now
        if message.kind == "bye":
            state.state = "left"
        elif self.failure is not None:
            # What still comes was sent before its sender knew.
            return
        elif message.kind == "position":
            state.position = read_position(message.fields)
        elif message.kind == "exchange":
            self._exchange(index, message)
        elif message.kind == "failed":
            self._fail(index, message)
        elif message.kind == "broken":
            state.position = read_position(message.fields)
            finished = liveness.find_finished(self.states, [index])
            if finished is not None:
                self._decide(finished)
        elif message.kind == "stuck":
            state.position = read_position(message.fields)
            state.has_given_up = True
        elif message.kind == "stack":
            state.stack = str(message["text"])
            state.line = str(message["line"])

    def disconnect(self, index: int, now: float) -> None:
        """Notes that the connection of a worker has ended."""
        state = self.states[index]
        if state.state == "present":
            state.state = "gone"
            if self.failure is None:
                self._deaths[index] = now + self._death_wait

    def explain_death(self, index: int, how: str) -> None:
        """Takes in from the launcher how a worker ended, such as `by SIGKILL`."""
        state = self.states[index]
        state.death = how
        if index in self._deaths:
            self._deaths[index] = 0.0
        elif not state.has_come:
            state.state = "gone"
            text = f"{state.describe()} ended before it joined: {how}. Look at its log."
            self._decide(failure_of(WorkerLost, index, state, text))

    def tick(self, now: float) -> None:
        """Looks for what has not happened in time."""
        self._is_late = now >= self._join_deadline
        if now >= self._next_beat:
            self._next_beat = now + BEAT_SECONDS
            self._tell_all(Message("beat"))
        for index in [i for i, moment in self._deaths.items() if moment <= now]:
            del self._deaths[index]
            self._decide(
                failure_of(WorkerLost, index, self.states[index], self._died(index))
            )
        if self.failure is not None:
            return
        if self.has_started:
            self._check_progress(now)
            self.outbox += self._reports.report_waits(now)
        else:
            self._check_join(now)
            report = self._reports.report_join(now, self._describe_refused())
            if report is not None:
                self._tell_all(report)

    def _tell_all(self, message: Message) -> None:
        self.outbox += [(index, message) for index in self.present]

    def _decide(self, failure: Failure) -> None:
        # The first is the cause; what comes after it are consequences.
        if self.failure is None:
            self.failure = failure
            self._tell_all(failure.as_message())

    def _died(self, index: int) -> str:
        state = self.states[index]
        how = state.death or "it ended without a word, by a signal, a crash or os._exit"
        return (
            f"{state.describe()} died: {how}. Last heard of in "
            f"{state.position.describe()}. Look at the end of its log; all workers "
            "must "
            "be started again."
        )

    def _find_different(self) -> Failure | None:
        first = next(state for state in self.states if state.has_come)
        for index, state in enumerate(self.states):
            if state.has_come and state.configuration != first.configuration:
                difference = liveness.find_difference(
                    state.configuration, first.configuration
                )
                text = (
                    "All workers must have the same configuration. "
                    f"{state.describe()} differs from {first.describe()}: {difference}"
                    ". Start all of them with the same cluster and options."
                )
                return failure_of(ProgramMismatch, index, state, text)
        return None

    def _exchange(self, index: int, message: Message) -> None:
        result = self._exchanges.add(index, message)
        if isinstance(result, Failure):
            self._decide(result)
        elif result is not None:
            self._tell_all(result)

    def _fail(self, index: int, message: Message) -> None:
        state = self.states[index]
        state.state = "left"
        text = f"{state.describe()} failed in {state.position.describe()}."
        trace = f"On {state.worker.name}: {message['traceback']}"
        self._decide(failure_of(WorkerFailed, index, state, text, trace))

    def _check_join(self, now: float) -> None:
        missing = [state for state in self.states if not state.has_come]
        if now < self._join_deadline or not missing:
            return
        names = ", ".join(str(state.worker) for state in missing)
        text = (
            f"All workers must join within {self._join_timeout:g} s. Missing: {names}"
            f"{self._describe_refused()}. Start them, check that they reach "
            f"{self.states[0].worker.address}, or set MIRRAX_JOIN_TIMEOUT."
        )
        index = self.states.index(missing[0])
        self._decide(failure_of(CollectiveTimeout, index, missing[0], text))

    def _describe_refused(self) -> str:
        return f"; refused: {', '.join(self._refused)}" if self._refused else ""

    def _check_progress(self, now: float) -> None:
        failure = liveness.find_verdict(self.states, now, self._silence_timeout)
        if failure is None:
            return
        # A suspect that is alive tells where it is, so that the error can say it.
        suspect = failure.worker
        is_silent = failure.error == WorkerLost.__name__
        if suspect is not None and self.states[suspect].is_present and not is_silent:
            if suspect not in self._asked:
                self._asked[suspect] = now + _STACK_SECONDS
                self.states[suspect].stack = ""
                self.outbox.append((suspect, Message("where")))
            state = self.states[suspect]
            if not state.stack and now < self._asked[suspect]:
                return
            if state.stack:
                details = f"{state.worker.name} is here:\n{state.stack}"
                failure = dataclasses.replace(failure, details=details)
        self._decide(failure)
