"""The coordinator's state machine: messages and times in, messages out in `outbox`.

Does no I/O; `server.py` has the sockets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from mirrax.cluster.coordinator import liveness
from mirrax.cluster.coordinator.exchanges import Exchanges
from mirrax.cluster.coordinator.liveness import WaitReports
from mirrax.cluster.coordinator.worker_state import WorkerState, make_failure
from mirrax.cluster.failure import Failure, read_progress
from mirrax.cluster.membership import Worker
from mirrax.cluster.net.messages import Message
from mirrax.errors import CollectiveTimeout, ProgramMismatch, WorkerFailed, WorkerLost

HEARTBEAT_SECONDS = 1.0
"""How often the coordinator sends a heartbeat."""

# How long to wait for a stalled worker's stack before reporting the failure without it.
_STACK_SECONDS = 1.0
_MAX_REFUSED = 5


class JobState:
    """The state of one job.

    Args:
        workers: The workers of the job.
        join_timeout: Seconds for all workers to join.
        silence_timeout: Seconds without a heartbeat after which a worker is lost.
        now: The current time, in seconds.
        exit_report_seconds: Seconds to wait for `report_exit` after a disconnect.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        join_timeout: float,
        silence_timeout: float,
        now: float,
        exit_report_seconds: float = 0.0,
    ) -> None:
        self.states = [WorkerState(worker) for worker in workers]
        self.outbox: list[tuple[int, Message]] = []
        self.failure: Failure | None = None
        self.has_started = False
        self._refused: dict[str, None] = {}
        self._join_deadline = now + join_timeout
        self._join_timeout = join_timeout
        self._has_join_expired = False
        self._silence_timeout = silence_timeout
        self._exit_report_seconds = exit_report_seconds
        self._exchanges = Exchanges(self.states)
        self._reports = WaitReports(self.states, now, join_timeout)
        self._next_heartbeat = now + HEARTBEAT_SECONDS
        self._stack_deadlines: dict[int, float] = {}
        self._lost: dict[int, float] = {}

    @property
    def connected(self) -> list[int]:
        """The indices of the connected workers."""
        return [index for index, state in enumerate(self.states) if state.is_connected]

    @property
    def is_over(self) -> bool:
        """Whether no worker is connected or expected."""
        # A worker that joins a failed job late is still told why it failed.
        all_joined = self._has_join_expired or all(
            state.has_joined for state in self.states
        )
        return all_joined and not self.connected and not self.is_awaiting_exit_report

    @property
    def is_awaiting_exit_report(self) -> bool:
        """Whether a worker disconnected and the launcher has not yet said why."""
        return bool(self._lost)

    def add_worker(self, index: int, body: dict[str, Any], now: float) -> str | None:
        """Registers a worker; returns the reason if it is refused."""
        state = self.states[index]
        if state.has_joined:
            return (
                f"Each worker joins once. Received: {state.worker} again, from "
                f"{body['hostname']} (process {body['pid']}); the first is "
                f"{state.host} (process {state.pid}). Give each process its own task "
                "index, and restart all workers when one has ended."
            )
        state.join(body, now)
        if self.failure is not None:
            self.outbox.append((index, self.failure.as_message()))
            return None
        different = self._find_different()
        if different is not None:
            self._set_failure(different)
        elif all(state.has_joined for state in self.states):
            self.has_started = True
            hosts = [state.host for state in self.states]
            self._broadcast(Message("start", {"hosts": hosts}))
        return None

    def record_refusal(self, who: str) -> None:
        """Records a refused process: it may be the missing worker."""
        if len(self._refused) < _MAX_REFUSED:
            self._refused[who] = None

    def receive(self, index: int, message: Message, now: float) -> None:
        """Handles a message from a worker."""
        state = self.states[index]
        state.last_heard = now
        if message.kind == "leave":
            state.state = "left"
        elif self.failure is not None:
            # The sender did not know of the failure yet.
            return
        elif message.kind == "progress":
            state.progress = read_progress(message.fields)
        elif message.kind == "exchange":
            self._exchange(index, message)
        elif message.kind == "failed":
            self._fail(index, message)
        elif message.kind == "broken":
            state.progress = read_progress(message.fields)
            finished = liveness.find_finished(self.states, [index])
            if finished is not None:
                self._set_failure(finished)
        elif message.kind == "stuck":
            state.progress = read_progress(message.fields)
            state.has_given_up = True
        elif message.kind == "stack":
            state.stack = str(message["text"])
            state.line = str(message["line"])

    def disconnect(self, index: int, now: float) -> None:
        """Handles the end of a worker's connection."""
        state = self.states[index]
        if state.state == "connected":
            state.state = "lost"
            if self.failure is None:
                self._lost[index] = now + self._exit_report_seconds

    def report_exit(self, index: int, how: str) -> None:
        """Handles the launcher's report of how a worker ended: `killed by SIGKILL`."""
        state = self.states[index]
        state.exit_report = how
        if index in self._lost:
            self._lost[index] = 0.0
        elif not state.has_joined:
            state.state = "lost"
            text = f"{state.describe()} ended before it joined: {how}. Look at its log."
            self._set_failure(make_failure(WorkerLost, index, state, text))

    def tick(self, now: float) -> None:
        """Checks all timeouts, and sends heartbeats and wait reports."""
        self._has_join_expired = now >= self._join_deadline
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + HEARTBEAT_SECONDS
            self._broadcast(Message("heartbeat"))
        for index in [i for i, moment in self._lost.items() if moment <= now]:
            del self._lost[index]
            self._set_failure(
                make_failure(
                    WorkerLost, index, self.states[index], self._describe_death(index)
                )
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
                self._broadcast(report)

    def _broadcast(self, message: Message) -> None:
        self.outbox += [(index, message) for index in self.connected]

    def _set_failure(self, failure: Failure) -> None:
        # The first failure is the cause, later ones are consequences.
        if self.failure is None:
            self.failure = failure
            self._broadcast(failure.as_message())

    def _describe_death(self, index: int) -> str:
        state = self.states[index]
        how = state.exit_report or "it ended by a signal, a crash or os._exit"
        return (
            f"{state.describe()} died: {how}. Last heard of in "
            f"{state.progress.describe()}. Look at the end of its log, and restart all "
            "workers."
        )

    def _find_different(self) -> Failure | None:
        first = next(state for state in self.states if state.has_joined)
        for index, state in enumerate(self.states):
            if state.has_joined and state.configuration != first.configuration:
                difference = liveness.find_difference(
                    state.configuration, first.configuration
                )
                text = (
                    "All workers must have the same configuration. "
                    f"{state.describe()} differs from {first.describe()}: {difference}"
                    ". Start all of them with the same cluster and options."
                )
                return make_failure(ProgramMismatch, index, state, text)
        return None

    def _exchange(self, index: int, message: Message) -> None:
        result = self._exchanges.add(index, message)
        if isinstance(result, Failure):
            self._set_failure(result)
        elif result is not None:
            self._broadcast(result)

    def _fail(self, index: int, message: Message) -> None:
        state = self.states[index]
        state.state = "left"
        text = f"{state.describe()} failed in {state.progress.describe()}."
        trace = f"On {state.worker.name}: {message['traceback']}"
        self._set_failure(make_failure(WorkerFailed, index, state, text, trace))

    def _check_join(self, now: float) -> None:
        missing = [state for state in self.states if not state.has_joined]
        if now < self._join_deadline or not missing:
            return
        names = ", ".join(str(state.worker) for state in missing)
        text = (
            f"All workers must join within {self._join_timeout:g} s. Missing: {names}"
            f"{self._describe_refused()}. Start them, check that they reach "
            f"{self.states[0].worker.address}, or set MIRRAX_JOIN_TIMEOUT."
        )
        index = self.states.index(missing[0])
        self._set_failure(make_failure(CollectiveTimeout, index, missing[0], text))

    def _describe_refused(self) -> str:
        return f"; refused: {', '.join(self._refused)}" if self._refused else ""

    def _check_progress(self, now: float) -> None:
        failure = liveness.find_failure(self.states, now, self._silence_timeout)
        if failure is None:
            return
        # Ask a stalled worker for its stack first, so that the error can show it.
        suspect = failure.worker
        is_silent = failure.error == WorkerLost.__name__
        if suspect is not None and self.states[suspect].is_connected and not is_silent:
            if suspect not in self._stack_deadlines:
                self._stack_deadlines[suspect] = now + _STACK_SECONDS
                self.states[suspect].stack = ""
                self.outbox.append((suspect, Message("get_stack")))
            state = self.states[suspect]
            if not state.stack and now < self._stack_deadlines[suspect]:
                return
            if state.stack:
                details = f"{state.worker.name} is here:\n{state.stack}"
                failure = dataclasses.replace(failure, details=details)
        self._set_failure(failure)
