"""Finds stalled or diverged workers from their reported progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from mirrax.cluster.coordinator.worker_state import Seat
from mirrax.cluster.net.messages import Message
from collections.abc import Sequence
from typing import Any
from mirrax.cluster.failure import Verdict, judge
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
        seats: The workers.
        start: When they began to join.
        join_timeout: How many seconds they have for that.
    """

    def __init__(
        self, seats: Sequence[Seat], start: float, join_timeout: float
    ) -> None:
        self._seats = seats
        self._start = start
        self._join_timeout = join_timeout
        self._next_join = start + _JOIN_SECONDS
        self._next = dict.fromkeys(range(len(seats)), start)
        self._next_ask = dict.fromkeys(range(len(seats)), start)

    def report_join(self, now: float, refused: str) -> Message | None:
        """Returns who has not joined yet, None if it is not the time to say so.

        Args:
            refused: Who wanted to join and was not one of them, in words.
        """
        if now < self._next_join:
            return None
        self._next_join = now + _JOIN_SECONDS
        names = ", ".join(str(s.worker) for s in self._seats if not s.has_come)
        seconds = f"{now - self._start:.0f} s of {self._join_timeout:g}"
        text = f"{seconds} for {names} to join{refused}"
        return Message("waiting", {"text": text})

    def report_waits(self, now: float) -> Iterator[tuple[int, Message]]:
        """Yields messages for those who wait, and questions to the missing."""
        for index, seat in enumerate(self._seats):
            waited = seat.waited(now)
            if not seat.is_present or waited is None or waited < _ASK_SECONDS:
                continue
            behind = find_behind(self._seats, index)
            for other in behind:
                if self._seats[other].is_present and now >= self._next_ask[other]:
                    self._next_ask[other] = now + _AGAIN_SECONDS
                    yield other, Message("where")
            if waited >= _WAIT_SECONDS and now >= self._next[index]:
                self._next[index] = now + _AGAIN_SECONDS
                text = describe_wait(self._seats, index, behind, now)
                yield index, Message("waiting", {"text": text})


# Positions are up to half a second old, so shorter waits say nothing.
_SURE_SECONDS = 2.0


def find_verdict(
    seats: Sequence[Seat], now: float, silence_timeout: float
) -> Verdict | None:
    """Returns what is wrong with the job, None as long as nothing is."""
    waiting = [
        index
        for index, seat in enumerate(seats)
        if seat.is_present and (seat.waited(now) or 0.0) >= _SURE_SECONDS
    ]
    if not waiting:
        return None
    return (
        _find_silent(seats, now, silence_timeout)
        or find_finished(seats, waiting)
        or _find_divergent(seats, waiting)
        or _find_stuck(seats, waiting, now)
    )


def find_behind(seats: Sequence[Seat], index: int) -> list[int]:
    """Returns the workers that have not come to where one of them waits."""
    count = seats[index].position.count
    return [
        other
        for other, seat in enumerate(seats)
        if other != index and seat.position.count < count
    ]


def find_finished(seats: Sequence[Seat], waiting: Sequence[int]) -> Verdict | None:
    """Returns that a worker has ended for which some of those that wait, wait."""
    for index in waiting:
        for other in find_behind(seats, index):
            seat = seats[other]
            if seat.state == "left":
                text = (
                    "All workers must do the same things in the same order. "
                    f"{seat.describe()} has finished after "
                    f"{seat.position.describe()}, while {seats[index].describe()} "
                    "waits for it in "
                    f"{seats[index].position.describe()}. Give all workers the same "
                    "number of steps, and the same reads and collectives after them."
                )
                return judge(ProgramMismatch, other, seat, text)
    return None


def describe_wait(
    seats: Sequence[Seat], index: int, behind: Sequence[int], now: float
) -> str:
    """Returns in words for whom a worker waits, and where those are."""
    seat = seats[index]
    place = f"{seat.waited(now):.0f} s in {seat.position.describe()}"
    if not behind:
        return f"{place}; all workers are there"
    others = "; ".join(_describe_missing(seats[other], now) for other in behind)
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


def _describe_missing(seat: Seat, now: float) -> str:
    silence = now - seat.heard
    about = f"{seat.describe()}, which was last in {seat.position.describe()}"
    if seat.is_present and silence > _SURE_SECONDS:
        return f"{about} and has been silent for {silence:.0f} s"
    return f"{about} and is now at {seat.line}" if seat.line else about


def _find_silent(
    seats: Sequence[Seat], now: float, silence_timeout: float
) -> Verdict | None:
    for index, seat in enumerate(seats):
        silence = now - seat.heard
        if seat.is_present and silence > silence_timeout:
            text = (
                f"{seat.describe()} has not been heard of for {silence:.0f} s. Last: "
                f"{seat.position.describe()}. Its process is stopped or its machine "
                "cannot be reached. All workers must be started again; "
                "MIRRAX_SILENCE_TIMEOUT sets how long to wait."
            )
            return judge(WorkerLost, index, seat, text)
    return None


def _find_divergent(seats: Sequence[Seat], waiting: Sequence[int]) -> Verdict | None:
    for index in waiting:
        first = seats[waiting[0]]
        seat = seats[index]
        if (
            seat.position.count == first.position.count
            and seat.position.phase != first.position.phase
        ):
            text = (
                "All workers must do the same things in the same order. "
                f"{seat.describe()} is in {seat.position.describe()}, "
                f"{first.describe()} is in {first.position.describe()}. Look for code "
                "that depends on the worker around one of the two."
            )
            return judge(ProgramMismatch, index, seat, text)
    return None


def _find_stuck(
    seats: Sequence[Seat], waiting: Sequence[int], now: float
) -> Verdict | None:
    for index in waiting:
        seat = seats[index]
        waited = seat.waited(now) or 0.0
        if not seat.has_given_up and waited < seat.position.limit:
            continue
        # One that is silent meanwhile is the one to blame, wherever it was.
        silent = _find_silent(seats, now, _SURE_SECONDS)
        if silent is not None:
            return silent
        behind = find_behind(seats, index)
        culprit = min(behind, key=lambda i: seats[i].position.count, default=None)
        text = (
            f"{seat.describe()} has waited "
            f"{describe_wait(seats, index, behind, now)}. A longer limit can be set "
            "with MIRRAX_STUCK_TIMEOUT."
        )
        if culprit is not None:
            return judge(CollectiveTimeout, culprit, seats[culprit], text)
        return Verdict(
            error=CollectiveTimeout.__name__,
            message=text,
            phase=seat.position.phase,
            step=seat.position.step,
        )
    return None
