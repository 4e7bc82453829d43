"""Finds stalled or diverged workers from their reported progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mirrax.cluster.coordinator.worker_state import WorkerState, failure_of
from mirrax.cluster.failure import Failure
from mirrax.cluster.net.messages import Message
from mirrax.errors import CollectiveTimeout, ProgramMismatch, WorkerLost

_JOIN_SECONDS = 5.0
# A wait is told when it is so long, and then again and again; a little earlier those
# who are missing are asked for the line that they execute.
_ASK_SECONDS = 7.0
_WAIT_SECONDS = 8.0
_AGAIN_SECONDS = 10.0


class Reports:
    """Decides when whom to tell that others keep it waiting.

    Args:
        states: The workers.
        start: When they began to join.
        join_timeout: How many seconds they have for that.
    """

    def __init__(
        self, states: Sequence[WorkerState], start: float, join_timeout: float
    ) -> None:
        self._states = states
        self._start = start
        self._join_timeout = join_timeout
        self._next_join = start + _JOIN_SECONDS
        self._next = dict.fromkeys(range(len(states)), start)
        self._next_ask = dict.fromkeys(range(len(states)), start)

    def report_join(self, now: float, refused: str) -> Message | None:
        """Returns who has not joined yet, None if it is not the time to say so.

        Args:
            refused: Who wanted to join and was not one of them, in words.
        """
        if now < self._next_join:
            return None
        self._next_join = now + _JOIN_SECONDS
        names = ", ".join(str(s.worker) for s in self._states if not s.has_come)
        seconds = f"{now - self._start:.0f} s of {self._join_timeout:g}"
        text = f"{seconds} for {names} to join{refused}"
        return Message("waiting", {"text": text})

    def report_waits(self, now: float) -> Iterator[tuple[int, Message]]:
        """Yields messages for those who wait, and questions to the missing."""
        for index, state in enumerate(self._states):
            waited = state.waited(now)
            if not state.is_present or waited is None or waited < _ASK_SECONDS:
                continue
            behind = find_behind(self._states, index)
            for other in behind:
                if self._states[other].is_present and now >= self._next_ask[other]:
                    self._next_ask[other] = now + _AGAIN_SECONDS
                    yield other, Message("where")
            if waited >= _WAIT_SECONDS and now >= self._next[index]:
                self._next[index] = now + _AGAIN_SECONDS
                text = describe_wait(self._states, index, behind, now)
                yield index, Message("waiting", {"text": text})


# Positions are up to half a second old, so shorter waits say nothing.
_SURE_SECONDS = 2.0


def find_verdict(
    states: Sequence[WorkerState], now: float, silence_timeout: float
) -> Failure | None:
    """Returns what is wrong with the job, None as long as nothing is."""
    waiting = [
        index
        for index, state in enumerate(states)
        if state.is_present and (state.waited(now) or 0.0) >= _SURE_SECONDS
    ]
    if not waiting:
        return None
    return (
        _find_silent(states, now, silence_timeout)
        or find_finished(states, waiting)
        or _find_divergent(states, waiting)
        or _find_stuck(states, waiting, now)
    )


def find_behind(states: Sequence[WorkerState], index: int) -> list[int]:
    """Returns the workers that have not come to where one of them waits."""
    count = states[index].position.count
    return [
        other
        for other, state in enumerate(states)
        if other != index and state.position.count < count
    ]


def find_finished(
    states: Sequence[WorkerState], waiting: Sequence[int]
) -> Failure | None:
    """Returns that a worker has ended for which some of those that wait, wait."""
    for index in waiting:
        for other in find_behind(states, index):
            state = states[other]
            if state.state == "left":
                text = (
                    "All workers must do the same things in the same order. "
                    f"{state.describe()} has finished after "
                    f"{state.position.describe()}, while {states[index].describe()} "
                    "waits for it in "
                    f"{states[index].position.describe()}. Give all workers the same "
                    "number of steps, and the same reads and collectives after them."
                )
                return failure_of(ProgramMismatch, other, state, text)
    return None


def describe_wait(
    states: Sequence[WorkerState], index: int, behind: Sequence[int], now: float
) -> str:
    """Returns in words for whom a worker waits, and where those are."""
    state = states[index]
    place = f"{state.waited(now):.0f} s in {state.position.describe()}"
    if not behind:
        return f"{place}; all workers are there"
    others = "; ".join(_describe_missing(states[other], now) for other in behind)
    return f"{place} for {others}"


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
    silence = now - state.heard
    about = f"{state.describe()}, which was last in {state.position.describe()}"
    if state.is_present and silence > _SURE_SECONDS:
        return f"{about} and has been silent for {silence:.0f} s"
    return f"{about} and is now at {state.line}" if state.line else about


def _find_silent(
    states: Sequence[WorkerState], now: float, silence_timeout: float
) -> Failure | None:
    for index, state in enumerate(states):
        silence = now - state.heard
        if state.is_present and silence > silence_timeout:
            text = (
                f"{state.describe()} has not been heard of for {silence:.0f} s. Last: "
                f"{state.position.describe()}. Its process is stopped or its machine "
                "cannot be reached. All workers must be started again; "
                "MIRRAX_SILENCE_TIMEOUT sets how long to wait."
            )
            return failure_of(WorkerLost, index, state, text)
    return None


def _find_divergent(
    states: Sequence[WorkerState], waiting: Sequence[int]
) -> Failure | None:
    for index in waiting:
        first = states[waiting[0]]
        state = states[index]
        if (
            state.position.count == first.position.count
            and state.position.phase != first.position.phase
        ):
            text = (
                "All workers must do the same things in the same order. "
                f"{state.describe()} is in {state.position.describe()}, "
                f"{first.describe()} is in {first.position.describe()}. Look for code "
                "that depends on the worker around one of the two."
            )
            return failure_of(ProgramMismatch, index, state, text)
    return None


def _find_stuck(
    states: Sequence[WorkerState], waiting: Sequence[int], now: float
) -> Failure | None:
    for index in waiting:
        state = states[index]
        waited = state.waited(now) or 0.0
        if not state.has_given_up and waited < state.position.limit:
            continue
        # One that is silent meanwhile is the one to blame, wherever it was.
        silent = _find_silent(states, now, _SURE_SECONDS)
        if silent is not None:
            return silent
        behind = find_behind(states, index)
        culprit = min(behind, key=lambda i: states[i].position.count, default=None)
        text = (
            f"{state.describe()} has waited "
            f"{describe_wait(states, index, behind, now)}. A longer limit can be set "
            "with MIRRAX_STUCK_TIMEOUT."
        )
        if culprit is not None:
            return failure_of(CollectiveTimeout, culprit, states[culprit], text)
        return Failure(
            error=CollectiveTimeout.__name__,
            message=text,
            phase=state.position.phase,
            step=state.position.step,
        )
    return None
