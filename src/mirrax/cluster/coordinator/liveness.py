"""Finds stalled or diverged workers from their reported progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mirrax.cluster.coordinator.worker_state import WorkerState, make_failure
from mirrax.cluster.failure import Failure
from mirrax.cluster.net.messages import Message
from mirrax.errors import CollectiveTimeout, ProgramMismatch, WorkerLost

_JOIN_SECONDS = 5.0
# A wait is reported after _REPORT_SECONDS and then repeatedly. The workers behind are
# asked for their current line a little earlier.
_STACK_REQUEST_SECONDS = 7.0
_REPORT_SECONDS = 8.0
_REPEAT_SECONDS = 10.0


class WaitReports:
    """Periodic reports to waiting workers about the workers they wait for."""

    def __init__(
        self, states: Sequence[WorkerState], start: float, join_timeout: float
    ) -> None:
        self._states = states
        self._start = start
        self._join_timeout = join_timeout
        self._next_join_report = start + _JOIN_SECONDS
        self._next_report = dict.fromkeys(range(len(states)), start)
        self._next_stack_request = dict.fromkeys(range(len(states)), start)

    def report_join(self, now: float, refused: str) -> Message | None:
        """Returns a report of missing workers when one is due, else None."""
        if now < self._next_join_report:
            return None
        self._next_join_report = now + _JOIN_SECONDS
        names = ", ".join(str(s.worker) for s in self._states if not s.has_joined)
        seconds = f"{now - self._start:.0f} s of {self._join_timeout:g}"
        text = f"{seconds} for {names} to join{refused}"
        return Message("waiting", {"text": text})

    def report_waits(self, now: float) -> Iterator[tuple[int, Message]]:
        """Yields reports for waiting workers, and stack requests for those behind."""
        for index, state in enumerate(self._states):
            waited = state.waited(now)
            if (
                not state.is_connected
                or waited is None
                or waited < _STACK_REQUEST_SECONDS
            ):
                continue
            behind = find_workers_behind(self._states, index)
            for other in behind:
                if (
                    self._states[other].is_connected
                    and now >= self._next_stack_request[other]
                ):
                    self._next_stack_request[other] = now + _REPEAT_SECONDS
                    yield other, Message("get_stack")
            if waited >= _REPORT_SECONDS and now >= self._next_report[index]:
                self._next_report[index] = now + _REPEAT_SECONDS
                text = describe_wait(self._states, index, behind, now)
                yield index, Message("waiting", {"text": text})


# Progress is up to half a second old, so shorter waits prove nothing.
_MIN_WAIT_SECONDS = 2.0


def find_failure(
    states: Sequence[WorkerState], now: float, silence_timeout: float
) -> Failure | None:
    """Returns the job's failure, None while there is none."""
    waiting = [
        index
        for index, state in enumerate(states)
        if state.is_connected and (state.waited(now) or 0.0) >= _MIN_WAIT_SECONDS
    ]
    if not waiting:
        return None
    return (
        _find_silent(states, now, silence_timeout)
        or find_finished(states, waiting)
        or _find_divergent(states, waiting)
        or _find_stuck(states, waiting, now)
    )


def find_workers_behind(states: Sequence[WorkerState], index: int) -> list[int]:
    """Returns the workers that have not reached the point where one waits."""
    count = states[index].progress.count
    return [
        other
        for other, state in enumerate(states)
        if other != index and state.progress.count < count
    ]


def find_finished(
    states: Sequence[WorkerState], waiting: Sequence[int]
) -> Failure | None:
    """Returns a failure if a waiting worker waits for one that has finished."""
    for index in waiting:
        for other in find_workers_behind(states, index):
            state = states[other]
            if state.state == "left":
                text = (
                    "All workers must do the same things in the same order. "
                    f"{state.describe()} has finished after "
                    f"{state.progress.describe()}, while {states[index].describe()} "
                    "waits for it in "
                    f"{states[index].progress.describe()}. Give all workers the same "
                    "number of steps, and the same reads and collectives after them."
                )
                return make_failure(ProgramMismatch, other, state, text)
    return None


def describe_wait(
    states: Sequence[WorkerState], index: int, behind: Sequence[int], now: float
) -> str:
    """Returns text on which workers one waits for, and where they are."""
    state = states[index]
    wait = f"{state.waited(now):.0f} s in {state.progress.describe()}"
    if not behind:
        return f"{wait}; all workers are there"
    others = "; ".join(_describe_missing(states[other], now) for other in behind)
    return f"{wait} for {others}"


def find_difference(mine: dict[str, Any], other: dict[str, Any]) -> str:
    """Returns the first setting that differs, with both values.

    >>> find_difference({"jax": "0.10.2"}, {"jax": "0.10.1"})
    "`jax` is '0.10.2' there and '0.10.1' here"
    """
    for name in sorted(mine.keys() | other.keys()):
        if mine.get(name) != other.get(name):
            here, there = other.get(name), mine.get(name)
            if isinstance(here, dict) and isinstance(there, dict):
                return f"`{name}`: {find_difference(there, here)}"
            return f"`{name}` is {there!r} there and {here!r} here"
    return "nothing differs"


def _describe_missing(state: WorkerState, now: float) -> str:
    silence = now - state.last_heard
    about = f"{state.describe()}, which was last in {state.progress.describe()}"
    if state.is_connected and silence > _MIN_WAIT_SECONDS:
        return f"{about} and has been silent for {silence:.0f} s"
    return f"{about} and is now at {state.line}" if state.line else about


def _find_silent(
    states: Sequence[WorkerState], now: float, silence_timeout: float
) -> Failure | None:
    for index, state in enumerate(states):
        silence = now - state.last_heard
        if state.is_connected and silence > silence_timeout:
            text = (
                f"{state.describe()} has not been heard of for {silence:.0f} s. Last: "
                f"{state.progress.describe()}. Its process is stopped or its machine "
                "cannot be reached. Restart all workers; MIRRAX_SILENCE_TIMEOUT sets "
                "how long to wait."
            )
            return make_failure(WorkerLost, index, state, text)
    return None


def _find_divergent(
    states: Sequence[WorkerState], waiting: Sequence[int]
) -> Failure | None:
    for index in waiting:
        first = states[waiting[0]]
        state = states[index]
        if (
            state.progress.count == first.progress.count
            and state.progress.phase != first.progress.phase
        ):
            text = (
                "All workers must do the same things in the same order. "
                f"{state.describe()} is in {state.progress.describe()}, "
                f"{first.describe()} is in {first.progress.describe()}. Look for code "
                "that depends on the worker around one of the two."
            )
            return make_failure(ProgramMismatch, index, state, text)
    return None


def _find_stuck(
    states: Sequence[WorkerState], waiting: Sequence[int], now: float
) -> Failure | None:
    for index in waiting:
        state = states[index]
        waited = state.waited(now) or 0.0
        if not state.has_given_up and waited < state.progress.limit:
            continue
        # A worker without heartbeats is the cause, wherever it was.
        silent = _find_silent(states, now, _MIN_WAIT_SECONDS)
        if silent is not None:
            return silent
        behind = find_workers_behind(states, index)
        slowest = min(behind, key=lambda i: states[i].progress.count, default=None)
        text = (
            f"{state.describe()} has waited "
            f"{describe_wait(states, index, behind, now)}. A longer limit can be set "
            "with MIRRAX_STUCK_TIMEOUT."
        )
        if slowest is not None:
            return make_failure(CollectiveTimeout, slowest, states[slowest], text)
        return Failure(
            error=CollectiveTimeout.__name__,
            message=text,
            phase=state.progress.phase,
            step=state.progress.step,
        )
    return None
