"""The coordinator's state machine: messages and times in, messages out in `outbox`.

Does no I/O; `server.py` has the sockets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from mirrax.cluster.coordinator import liveness
from mirrax.cluster.coordinator.exchanges import Exchanges
from mirrax.cluster.coordinator.liveness import WaitReports
from mirrax.cluster.coordinator.stop_round import StopRound
from mirrax.cluster.coordinator.worker_state import WorkerState, make_failure
from mirrax.cluster.failure import Failure, read_progress
from mirrax.cluster.job_options import JobOptions
from mirrax.cluster.membership import Worker
from mirrax.cluster.net.messages import Message
from mirrax.errors import CollectiveTimeout, ProgramMismatch, WorkerFailed, WorkerLost

HEARTBEAT_SECONDS = 1.0
"""How often the coordinator sends a heartbeat."""

# How long to wait for a stalled worker's stack before reporting the failure without it.
_STACK_SECONDS = 1.0
# How long to wait for the launcher's report of a worker's exit.
_EXIT_REPORT_SECONDS = 0.5
# How long a worker that left may take to end, and its launcher to report its exit code.
_END_SECONDS = 2.0
_MAX_REFUSED = 5


class JobState:
    """The state of one job.

    Args:
        options: The timeouts of the job.
        now: The current time, in seconds.
        reported: The indices of workers whose ends are told by `report_exit`.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        options: JobOptions,
        now: float,
        reported: Collection[int] = (),
    ) -> None:
        self.states = [WorkerState(worker) for worker in workers]
        self.outbox: list[tuple[int, Message]] = []
        self.failure: Failure | None = None
        self.has_started = False
        self._num_joined = 0
        self._first_joined: int | None = None
        self._refused: dict[str, None] = {}
        self._options = options
        self._join_deadline = now + options.join_timeout
        self._has_join_expired = False
        self._last_change = (0, now)
        self._reported = frozenset(reported)
        self._exchanges = Exchanges(self.states)
        self._stop_round = StopRound()
        self._reports = WaitReports(self.states, now, options.join_timeout)
        self._next_heartbeat = now + HEARTBEAT_SECONDS
        self._stack_deadlines: dict[int, float] = {}
        self._lost: dict[int, float] = {}
        self._broken: dict[int, float] = {}

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
        self._num_joined += 1
        if self.failure is not None:
            self.outbox.append((index, self.failure.as_message()))
            return None
        different = self._compare_configuration(index)
        if different is not None:
            self._set_failure(different)
        elif self._num_joined == len(self.states):
            self.has_started = True
            self._last_change = (0, now)
            self._broadcast(Message("start"))
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
        elif message.kind == "stop":
            self._stop_round.is_requested = True
        elif message.kind == "steps":
            self._stop_round.add(index, int(message["count"]))
        elif message.kind == "broken":
            state.progress = read_progress(message.fields)
            self._broken[index] = now
            if self._reported:
                self._broken[index] += _END_SECONDS
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
                is_reported = index in self._reported
                self._lost[index] = now + _EXIT_REPORT_SECONDS * is_reported

    def report_exit(self, index: int, how: str, has_failed: bool) -> None:
        """Handles the launcher's report of how a worker ended: `killed by SIGKILL`."""
        state = self.states[index]
        state.exit_report = how
        self._broken = dict.fromkeys(self._broken, 0.0)
        if index in self._lost:
            self._lost[index] = 0.0
        elif not state.has_joined:
            state.state = "lost"
            text = f"{state.describe()} ended before it joined: {how}. Look at its log."
            self._set_failure(make_failure(WorkerLost, index, state, text))
        elif has_failed and state.state == "left" and not self._stop_round.is_over:
            text = f"{state.describe()} ended after {state.progress.describe()}: {how}."
            self._set_failure(make_failure(WorkerFailed, index, state, text))

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
        broken = [i for i, moment in self._broken.items() if moment <= now]
        finished = liveness.find_finished(self.states, broken)
        if finished is not None:
            self._set_failure(finished)
        if self.failure is not None:
            return
        if self.has_started:
            self._check_progress(now)
            stop = self._stop_round.next_message(self.connected)
            if stop is not None:
                self._broadcast(stop)
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

    def _compare_configuration(self, joined: int) -> Failure | None:
        """Returns a failure if the worker that joined has another configuration.

        An equal one is kept only once: it names all workers.
        """
        # All others are equal to the first, or the job would have failed.
        other = self._first_joined
        if other is None:
            self._first_joined = joined
            return None
        if self.states[joined].configuration == self.states[other].configuration:
            self.states[joined].configuration = self.states[other].configuration
            return None
        first, index = sorted((other, joined))
        state = self.states[index]
        difference = liveness.find_difference(
            state.configuration, self.states[first].configuration
        )
        text = (
            "All workers must have the same configuration. "
            f"{state.describe()} differs from {self.states[first].describe()}: "
            f"{difference}. Start all of them with the same cluster and options."
        )
        return make_failure(ProgramMismatch, index, state, text)

    def _exchange(self, index: int, message: Message) -> None:
        result = self._exchanges.add(index, message)
        if isinstance(result, Failure):
            self._set_failure(result)
        elif result is not None:
            self._broadcast(result)

    def _fail(self, index: int, message: Message) -> None:
        state = self.states[index]
        state.state = "left"
        text = f"{state.describe()} failed in {state.progress.describe()}"
        trace = str(message["traceback"]).strip()
        if "\n" in trace:
            text, trace = f"{text}.", f"On {state.worker.name}: {trace}"
        else:
            text, trace = f"{text}: {trace}.", ""
        self._set_failure(make_failure(WorkerFailed, index, state, text, trace))

    def _check_join(self, now: float) -> None:
        missing = [state for state in self.states if not state.has_joined]
        silent = liveness.find_silent(self.states, now, self._options.silence_timeout)
        if silent is not None:
            self._set_failure(silent)
        if now < self._join_deadline or not missing:
            return
        names = ", ".join(str(state.worker) for state in missing)
        text = (
            f"All workers must join within {self._options.join_timeout:g} s. "
            f"Missing: {names}{self._describe_refused()}. Start them, check that they "
            f"reach {self.states[0].worker.address}, or set MIRRAX_JOIN_TIMEOUT."
        )
        index = self.states.index(missing[0])
        self._set_failure(make_failure(CollectiveTimeout, index, missing[0], text))

    def _find_idle(self, now: float) -> Failure | None:
        total = sum(state.progress.count for state in self.states)
        works_alone = all(
            state.is_connected and state.progress.waiting is None
            for state in self.states
        )
        if total != self._last_change[0] or not works_alone:
            self._last_change = (total, now)
        idle = now - self._last_change[1]
        if idle < self._options.idle_timeout:
            return None
        return liveness.report_idle(self.states, idle)

    def _describe_refused(self) -> str:
        return f"; refused: {', '.join(self._refused)}" if self._refused else ""

    def _check_progress(self, now: float) -> None:
        failure = liveness.find_failure(
            self.states, now, self._options.silence_timeout, self._options.idle_timeout
        )
        failure = failure or self._find_idle(now)
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
