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
# A report to thousands of workers must not name thousands of others.
_MAX_LISTED = 16


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
        names = _listed([str(s.worker) for s in self._states if not s.has_joined])
        seconds = f"{now - self._start:.0f} s of {self._join_timeout:g}"
        text = f"{seconds} for {names} to join{refused}"
        return Message("waiting", {"text": text})

    def report_waits(self, now: float) -> Iterator[tuple[int, Message]]:
        """Yields reports for waiting workers, and stack requests for those behind."""
        # The same for all that wait at one point, so that it is found once for each.
        others: dict[int, str] = {}
        for index, state in enumerate(self._states):
            waited = state.waited(now)
            if (
                not state.is_connected
                or waited is None
                or waited < _STACK_REQUEST_SECONDS
            ):
                continue
            count = state.progress.count
            if count not in others:
                behind = find_workers_behind(self._states, index)
                yield from self._request_stacks(behind, now)
                others[count] = describe_others(self._states, behind, now)
            if waited >= _REPORT_SECONDS and now >= self._next_report[index]:
                self._next_report[index] = now + _REPEAT_SECONDS
                text = f"{describe_wait(state, now)}{others[count]}"
                yield index, Message("waiting", {"text": text})

    def _request_stacks(
        self, behind: Sequence[int], now: float
    ) -> Iterator[tuple[int, Message]]:
        for index in behind:
            is_due = now >= self._next_stack_request[index]
            if is_due and self._states[index].is_connected:
                self._next_stack_request[index] = now + _REPEAT_SECONDS
                yield index, Message("get_stack")


# Progress is up to half a second old, so shorter waits prove nothing.
_MIN_WAIT_SECONDS = 2.0


def find_failure(
    states: Sequence[WorkerState],
    now: float,
    silence_timeout: float,
    compile_timeout: float,
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
        find_silent(states, now, silence_timeout)
        or find_finished(states, waiting)
        or _find_divergent(states, waiting)
        or _find_stuck(states, waiting, now, compile_timeout)
    )


def report_idle(states: Sequence[WorkerState], seconds: float) -> Failure:
    """Returns the failure of a job in which no worker takes part in collectives."""
    places = "; ".join(
        f"{state.describe()} was last in {state.progress.describe()}"
        for state in states
    )
    text = (
        f"No worker has entered a collective for {seconds:.0f} s: {places}. All of "
        "them hang, or work alone for longer than MIRRAX_IDLE_TIMEOUT allows."
    )
    return Failure(CollectiveTimeout.__name__, text)


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
    left = [other for other, state in enumerate(states) if state.state == "left"]
    if not left or not waiting:
        return None
    index = max(waiting, key=lambda i: states[i].progress.count)
    other = min(left, key=lambda i: states[i].progress.count)
    state = states[other]
    if state.progress.count >= states[index].progress.count:
        return None
    text = (
        "All workers must do the same things in the same order. "
        f"{state.describe()} has finished after {state.progress.describe()}, while "
        f"{states[index].describe()} waits for it in "
        f"{states[index].progress.describe()}. Give all workers the same number of "
        "steps, and the same reads and collectives after them."
    )
    return make_failure(ProgramMismatch, other, state, text)


def describe_wait(state: WorkerState, now: float) -> str:
    """Returns text on how long and where a worker waits."""
    return f"{state.waited(now):.0f} s in {state.progress.describe()}"


def describe_others(
    states: Sequence[WorkerState], behind: Sequence[int], now: float
) -> str:
    """Returns text on the workers that are waited for, and where they are."""
    if not behind:
        compiling = [s.worker.name for s in states if s.progress.is_compiling]
        also = f", and {_listed(compiling)} compiling" if compiling else ""
        return f"; all workers are there{also}"
    others = [_describe_missing(states[other], now) for other in behind[:_MAX_LISTED]]
    return f" for {_listed(others, len(behind), '; ')}"


def _listed(texts: Sequence[str], total: int | None = None, mark: str = ", ") -> str:
    """Returns the first texts, and how many more there are."""
    more = (len(texts) if total is None else total) - _MAX_LISTED
    tail = f"{mark}and {more:,} more" if more > 0 else ""
    return mark.join(texts[:_MAX_LISTED]) + tail


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


def find_silent(
    states: Sequence[WorkerState], now: float, silence_timeout: float
) -> Failure | None:
    """Returns a failure if a worker has sent no heartbeat for this long."""
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
    states: Sequence[WorkerState],
    waiting: Sequence[int],
    now: float,
    compile_timeout: float,
) -> Failure | None:
    is_compiling = any(s.is_connected and s.progress.is_compiling for s in states)
    for index in waiting:
        state = states[index]
        waited = state.waited(now) or 0.0
        limit = state.progress.limit
        if is_compiling:
            limit = max(limit, compile_timeout)
        if not state.has_given_up and waited < limit:
            continue
        # A worker without heartbeats is the cause, wherever it was.
        silent = find_silent(states, now, _MIN_WAIT_SECONDS)
        if silent is not None:
            return silent
        behind = find_workers_behind(states, index)
        slowest = min(behind, key=lambda i: states[i].progress.count, default=None)
        text = (
            f"{state.describe()} has waited {describe_wait(state, now)}"
            f"{describe_others(states, behind, now)}. A longer limit can be set with "
            "MIRRAX_STUCK_TIMEOUT."
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
