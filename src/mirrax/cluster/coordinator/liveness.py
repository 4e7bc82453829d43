"""Finds stalled or diverged workers from their reported progress."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from mirrax.cluster.coordinator.worker_state import WorkerState
from mirrax.cluster.failure import Failure
from mirrax.cluster.net.messages import Message
from mirrax.errors import CollectiveTimeout, ProgramMismatch, WorkerLost

# A wait is reported after _REPORT_SECONDS and then repeatedly. The workers behind are
# asked for their current line a little earlier.
_STACK_REQUEST_SECONDS = 7.0
_REPORT_SECONDS = 8.0
_REPEAT_SECONDS = 10.0
# Progress is up to half a second old, so shorter waits prove nothing.
_MIN_WAIT_SECONDS = 2.0
# A report to thousands of workers must not name thousands of others.
_MAX_LISTED = 16


def report_waits(
    states: Sequence[WorkerState], now: float
) -> Iterator[tuple[int, Message]]:
    """Yields reports for waiting workers, and stack requests for those behind."""
    # What each waits for, by the point where it waits: found once for each point.
    others: dict[int, str] = {}
    for state in states:
        waited = state.waited(now) or 0.0
        if not state.is_connected or waited < _STACK_REQUEST_SECONDS:
            continue
        count = state.progress.count
        if count not in others:
            behind = _find_behind(states, state)
            for other in behind:
                if other.is_connected and now >= other.next_stack_request:
                    other.next_stack_request = now + _REPEAT_SECONDS
                    yield other.index, Message("get_stack")
            others[count] = _describe_others(states, behind, now)
        if waited >= _REPORT_SECONDS and now >= state.next_report:
            state.next_report = now + _REPEAT_SECONDS
            text = f"{_describe_wait(state, now)}{others[count]}"
            yield state.index, Message("waiting", {"text": text})


def find_failure(
    states: Sequence[WorkerState],
    now: float,
    silence_timeout: float,
    compile_timeout: float,
) -> Failure | None:
    """Returns the job's failure, None while there is none."""
    waiting = [
        state
        for state in states
        if state.is_connected and (state.waited(now) or 0.0) >= _MIN_WAIT_SECONDS
    ]
    if not waiting:
        return None
    return (
        find_silent(states, now, silence_timeout)
        or find_finished(states, waiting, now)
        or _find_divergent(waiting)
        or _find_stuck(states, waiting, now, compile_timeout)
    )


def find_silent(
    states: Sequence[WorkerState], now: float, silence_timeout: float
) -> Failure | None:
    """Returns a failure if a worker has sent no heartbeat for this long."""
    for state in states:
        silence = now - state.last_heard
        if state.is_connected and silence > silence_timeout:
            text = (
                f"{state.describe()} has not been heard from for {silence:.0f} s. "
                f"Last: {state.progress.describe()}. Its process is stopped or its "
                "machine cannot be reached. Restart all workers; "
                "MIRRAX_SILENCE_TIMEOUT sets how long to wait."
            )
            return state.make_failure(WorkerLost, text)
    return None


def find_finished(
    states: Sequence[WorkerState], waiting: Sequence[WorkerState], now: float
) -> Failure | None:
    """Returns a failure if a waiting worker waits for one that has finished."""
    ended = [state for state in states if state.has_finished(now)]
    if not ended or not waiting:
        return None
    waiter = max(waiting, key=lambda state: state.progress.count)
    finished = min(ended, key=lambda state: state.progress.count)
    if finished.progress.count >= waiter.progress.count:
        return None
    text = (
        "All workers must do the same things in the same order. "
        f"{finished.describe()} has finished after {finished.progress.describe()}, "
        f"while {waiter.describe()} waits for it in {waiter.progress.describe()}. Give "
        "all workers the same number of steps, and the same reads and collectives "
        "after them."
    )
    return finished.make_failure(ProgramMismatch, text)


def list_names(texts: Iterable[str], count: int, mark: str = ", ") -> str:
    """Returns the first of `count` texts, and how many more there are."""
    more = count - _MAX_LISTED
    tail = f"{mark}and {more:,} more" if more > 0 else ""
    return mark.join(itertools.islice(texts, _MAX_LISTED)) + tail


def _find_behind(
    states: Sequence[WorkerState], waiter: WorkerState
) -> list[WorkerState]:
    """Returns the workers that have not reached the point where one waits."""
    return [state for state in states if state.progress.count < waiter.progress.count]


def _describe_wait(state: WorkerState, now: float) -> str:
    return f"{state.waited(now):.0f} s in {state.progress.describe()}"


def _describe_others(
    states: Sequence[WorkerState], behind: Sequence[WorkerState], now: float
) -> str:
    if not behind:
        compiling = [s.worker.name for s in states if s.progress.is_compiling]
        if not compiling:
            return "; all workers are there"
        names = list_names(compiling, len(compiling))
        return f"; all workers are there, and compiling: {names}"
    missing = (_describe_missing(state, now) for state in behind)
    return f" for {list_names(missing, len(behind), '; ')}"


def _describe_missing(state: WorkerState, now: float) -> str:
    silence = now - state.last_heard
    about = f"{state.describe()}, which was last in {state.progress.describe()}"
    if state.is_connected and silence > _MIN_WAIT_SECONDS:
        return f"{about} and has been silent for {silence:.0f} s"
    return f"{about} and is now at {state.line}" if state.line else about


def _find_divergent(waiting: Sequence[WorkerState]) -> Failure | None:
    first = waiting[0]
    for state in waiting:
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
            return state.make_failure(ProgramMismatch, text)
    return None


def _find_stuck(
    states: Sequence[WorkerState],
    waiting: Sequence[WorkerState],
    now: float,
    compile_timeout: float,
) -> Failure | None:
    is_compiling = any(s.is_connected and s.progress.is_compiling for s in states)
    for state in waiting:
        limit = state.progress.limit
        if is_compiling:
            limit = max(limit, compile_timeout)
        if not state.progress.has_given_up and (state.waited(now) or 0.0) < limit:
            continue
        # A worker without heartbeats is the cause, wherever it was.
        silent = find_silent(states, now, _MIN_WAIT_SECONDS)
        if silent is not None:
            return silent
        behind = _find_behind(states, state)
        text = (
            f"{state.describe()} has waited {_describe_wait(state, now)}"
            f"{_describe_others(states, behind, now)}. A longer limit can be set with "
            "MIRRAX_STUCK_TIMEOUT."
        )
        if behind:
            slowest = min(behind, key=lambda s: s.progress.count)
            return slowest.make_failure(CollectiveTimeout, text)
        return Failure(
            error=CollectiveTimeout.__name__,
            message=text,
            phase=state.progress.phase,
            step=state.progress.step,
        )
    return None
