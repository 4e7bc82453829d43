"""The coordinator's state machine: messages and times in, messages out in `outbox`.

Does no I/O; `server.py` has the sockets.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

from mirrax.cluster.coordinator import liveness
from mirrax.cluster.coordinator.worker_state import WorkerState
from mirrax.cluster.failure import Failure, PhaseReport
from mirrax.cluster.job_options import JobOptions
from mirrax.cluster.membership import Worker
from mirrax.cluster.net.messages import Message
from mirrax.errors import CollectiveTimeout, ProgramMismatch, WorkerFailed, WorkerLost

_HEARTBEAT_SECONDS = 1.0
# How often those that have joined are told who is missing.
_JOIN_REPORT_SECONDS = 5.0
# How long to wait for a stalled worker's stack before reporting the failure without it.
_STACK_SECONDS = 1.0
# How long to wait for the launcher's report of a worker's exit.
_EXIT_REPORT_SECONDS = 0.5
# How long a worker that left may take to end, and its launcher to report its exit code.
# Less than a worker waits for the explanation of an error of JAX.
_END_SECONDS = 8.0
_MAX_REFUSED = 5


@dataclasses.dataclass
class _Exchange:
    """An all-gather of small payloads, in progress."""

    topic: str
    first: WorkerState
    payloads: dict[int, bytes] = dataclasses.field(default_factory=dict)


class JobState:
    """The state of one job.

    Args:
        is_launched: Whether launchers tell by `report_exit` how workers end.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        options: JobOptions,
        now: float,
        is_launched: bool = False,
    ) -> None:
        self.states = [WorkerState(*each) for each in enumerate(workers)]
        self.outbox: list[tuple[int, Message]] = []
        self.failure: Failure | None = None
        self.has_started = False
        self._num_joined = 0
        self._first_joined: WorkerState | None = None
        # One that ended well and never joined: a failure as soon as another one joins.
        self._absence: Failure | None = None
        self._refused: dict[str, None] = {}
        self._options = options
        self._start = math.inf
        self._next_join_report = math.inf
        self._has_join_expired = False
        self._last_change = (0, now)
        self._is_launched = is_launched
        self._exchange: _Exchange | None = None
        self._is_stop_requested = False
        # The steps that each worker has done, once all are asked to stop.
        self._step_counts: dict[int, int] | None = None
        self._is_stop_agreed = False
        self._next_heartbeat = now + _HEARTBEAT_SECONDS

    @property
    def is_over(self) -> bool:
        # A worker that joins a failed job late is still told why it failed.
        all_joined = self._has_join_expired or all(
            state.has_joined for state in self.states
        )
        # The launcher has not yet said why such a worker disconnected.
        is_loss_open = any(state.report_loss_at is not None for state in self.states)
        return all_joined and not self._connected and not is_loss_open

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
        self._set_failure(self._absence)
        state.join(body, now)
        if not self._num_joined:
            # Before, no worker waits for another one; perhaps none ever joins.
            self._start = now
            self._next_join_report = now + _JOIN_REPORT_SECONDS
        self._num_joined += 1
        if self.failure is not None:
            self.outbox.append((index, self.failure.as_message()))
            return None
        different = self._compare_configuration(state)
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
        state = self.states[index]
        state.last_heard = now
        if message.kind == "leave":
            state.state = "left"
            state.end_deadline = now + _END_SECONDS * self._is_launched
        elif self.failure is not None:
            # The sender did not know of the failure yet.
            return
        elif message.kind == "progress":
            state.progress = PhaseReport(**message.fields)
        elif message.kind == "exchange":
            self._add_payload(state, message)
        elif message.kind == "failed":
            self._fail(state, message)
        elif message.kind == "stop":
            self._is_stop_requested = True
        elif message.kind == "steps" and self._step_counts is not None:
            self._step_counts[index] = message["count"]
        elif message.kind == "stack":
            state.stack, state.line = message["text"], message["line"]

    def disconnect(self, index: int, now: float) -> None:
        state = self.states[index]
        if state.is_connected:
            state.state = "lost"
            if self.failure is None:
                state.report_loss_at = now + _EXIT_REPORT_SECONDS * self._is_launched

    def report_exit(self, index: int, how: str, has_failed: bool) -> None:
        """Handles the launcher's report of how a worker ended: `killed by SIGKILL`."""
        state = self.states[index]
        state.exit_report = how
        state.end_deadline = 0.0
        if state.report_loss_at is not None:
            state.report_loss_at = 0.0
        elif not state.has_joined:
            state.state = "lost"
            text = f"{state.describe()} ended before it joined: {how}. Look at its log."
            self._absence = state.make_failure(WorkerLost, text)
            if has_failed or self._num_joined:
                self._set_failure(self._absence)
        elif has_failed and state.state == "left" and not self._is_stop_agreed:
            text = f"{state.describe()} ended after {state.progress.describe()}: {how}."
            self._set_failure(state.make_failure(WorkerFailed, text))

    def restart_waits_after_pause(self, last: float, now: float) -> None:
        """Starts all waits anew if there was no check for long.

        This process was stopped then, and perhaps the whole job, as Slurm can do.
        """
        if now - last < self._options.silence_timeout / 2:
            return
        self._last_change = self._last_change[0], now
        for state in self.states:
            state.last_heard = now

    def tick(self, now: float) -> None:
        """Checks all timeouts, and sends heartbeats and wait reports."""
        self._has_join_expired = now >= self._start + self._options.join_timeout
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + _HEARTBEAT_SECONDS
            self._broadcast(Message("heartbeat"))
        for state in self.states:
            if state.report_loss_at is not None and state.report_loss_at <= now:
                state.report_loss_at = None
                text = _describe_death(state)
                self._set_failure(state.make_failure(WorkerLost, text))
        broken = [each for each in self.states if each.progress.has_broken_connection]
        self._set_failure(liveness.find_finished(self.states, broken, now))
        if self.failure is not None:
            return
        if self.has_started:
            self._check_progress(now)
            self._agree_on_stop()
            self.outbox += liveness.report_waits(self.states, now)
        else:
            self._check_join(now)

    @property
    def _connected(self) -> list[int]:
        return [state.index for state in self.states if state.is_connected]

    def _broadcast(self, message: Message) -> None:
        self.outbox += [(index, message) for index in self._connected]

    def _set_failure(self, failure: Failure | None) -> None:
        # The first failure is the cause, later ones are consequences.
        if self.failure is None and failure is not None:
            self.failure = failure
            self._broadcast(failure.as_message())

    def _compare_configuration(self, joined: WorkerState) -> Failure | None:
        if self._first_joined is None:
            self._first_joined = joined
        # All others are equal to the first, or the job would have failed.
        other = self._first_joined
        if joined.configuration == other.configuration:
            # It names all workers, so it is kept only once.
            joined.configuration = other.configuration
            return None
        first, state = sorted((other, joined), key=lambda each: each.index)
        difference = find_difference(state.configuration, first.configuration)
        text = (
            "All workers must have the same configuration. "
            f"{state.describe()} differs from {first.describe()}: "
            f"{difference}. Start all of them with the same cluster and options."
        )
        return state.make_failure(ProgramMismatch, text)

    def _add_payload(self, state: WorkerState, message: Message) -> None:
        """Adds to the exchange in progress; answers all once it is complete.

        Equal payloads of neighbours are sent once: usually all are equal, and else the
        bytes grow with the square of the workers.
        """
        topic = message["topic"]
        if self._exchange is None:
            self._exchange = _Exchange(topic, state)
        current = self._exchange
        if topic != current.topic:
            text = (
                "All workers must do the same things in the same order. "
                f"{state.describe()} is at {topic!r}, {current.first.describe()} is at "
                f"{current.topic!r}. Look for code that depends on the worker around "
                "one of the two."
            )
            self._set_failure(state.make_failure(ProgramMismatch, text))
            return
        current.payloads[state.index] = message.payload
        if len(current.payloads) < len(self.states):
            return
        self._exchange = None
        payloads = [current.payloads[each.index] for each in self.states]
        runs = [(len(list(run)), each) for each, run in itertools.groupby(payloads)]
        counts = [[count, len(payload)] for count, payload in runs]
        parts = b"".join(payload for _, payload in runs)
        self._broadcast(Message("exchanged", {"counts_and_sizes": counts}, parts))

    def _fail(self, state: WorkerState, message: Message) -> None:
        state.state = "left"
        text = f"{state.describe()} failed in {state.progress.describe()}"
        trace = message["traceback"].strip()
        if "\n" in trace:
            text, trace = f"{text}.", f"On {state.worker.name}: {trace}"
        else:
            text, trace = f"{text}: {trace}.", ""
        self._set_failure(state.make_failure(WorkerFailed, text, trace))

    def _agree_on_stop(self) -> None:
        """Asks all workers how many steps they have done, and chooses the last one."""
        if not self._is_stop_requested or self._is_stop_agreed:
            return
        connected = set(self._connected)
        if self._step_counts is None:
            self._step_counts = {}
            self._broadcast(Message("count_steps"))
        elif connected and self._step_counts.keys() >= connected:
            self._is_stop_agreed = True
            # Those that have done most cannot stop before their next step.
            last = max(self._step_counts.values()) + 1
            self._broadcast(Message("stop_after", {"step": last}))

    def _check_join(self, now: float) -> None:
        self._set_failure(
            liveness.find_silent(self.states, now, self._options.silence_timeout)
        )
        missing = [state for state in self.states if not state.has_joined]
        names = liveness.list_names((str(s.worker) for s in missing), len(missing))
        if self._refused:
            names += f"; refused: {', '.join(self._refused)}"
        timeout = self._options.join_timeout
        if self._has_join_expired and missing:
            text = (
                f"All workers must join within {timeout:g} s. Missing: {names}. Start "
                f"them, check that they reach {self.states[0].worker.address}, or set "
                "MIRRAX_JOIN_TIMEOUT."
            )
            self._set_failure(missing[0].make_failure(CollectiveTimeout, text))
        elif now >= self._next_join_report:
            self._next_join_report = now + _JOIN_REPORT_SECONDS
            text = f"{now - self._start:.0f} s of {timeout:g} for {names} to join"
            self._broadcast(Message("waiting", {"text": text}))

    def _check_progress(self, now: float) -> None:
        options = self._options
        failure = liveness.find_failure(
            self.states, now, options.silence_timeout, options.idle_timeout
        )
        failure = failure or self._find_idle(now)
        if failure is None:
            return
        # Ask a stalled worker for its stack first, so that the error can show it.
        is_silent = failure.error == WorkerLost.__name__
        suspect = None if failure.worker is None else self.states[failure.worker]
        if suspect is not None and suspect.is_connected and not is_silent:
            if suspect.stack_deadline is None:
                suspect.stack_deadline = now + _STACK_SECONDS
                suspect.stack = ""
                self.outbox.append((suspect.index, Message("get_stack")))
            if suspect.stack:
                details = f"{suspect.worker.name} is here:\n{suspect.stack}"
                failure = dataclasses.replace(failure, details=details)
            elif now < suspect.stack_deadline:
                return
        self._set_failure(failure)

    def _find_idle(self, now: float) -> Failure | None:
        """Returns a failure if no worker takes part in collectives for too long."""
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
        places = "; ".join(
            f"{state.describe()} was last in {state.progress.describe()}"
            for state in self.states
        )
        text = (
            f"No worker has entered a collective for {idle:.0f} s: {places}. All of "
            "them hang, or work alone for longer than MIRRAX_IDLE_TIMEOUT allows."
        )
        return Failure(CollectiveTimeout.__name__, text)


def find_difference(mine: dict[str, Any], other: dict[str, Any]) -> str:
    """Returns the first setting that differs, with both values.

    >>> find_difference({"jax": "0.10.2"}, {"jax": "0.10.1"})
    "`jax` is '0.10.2' there and '0.10.1' here"
    """
    for name in sorted(mine.keys() | other.keys()):
        there, here = mine.get(name), other.get(name)
        if there != here:
            if isinstance(here, dict) and isinstance(there, dict):
                return f"`{name}`: {find_difference(there, here)}"
            return f"`{name}` is {there!r} there and {here!r} here"
    return "nothing differs"


def _describe_death(state: WorkerState) -> str:
    how = state.exit_report or "it ended by a signal, a crash or os._exit"
    return (
        f"{state.describe()} died: {how}. Last heard from in "
        f"{state.progress.describe()}. Look at the end of its log, and restart all "
        "workers."
    )
