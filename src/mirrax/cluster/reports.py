"""What those who wait are told about those they wait for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirrax.cluster import suspicion
from mirrax.cluster.seat import Seat
from mirrax.cluster.wire import Message

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
            behind = suspicion.find_behind(self._seats, index)
            for other in behind:
                if self._seats[other].is_present and now >= self._next_ask[other]:
                    self._next_ask[other] = now + _AGAIN_SECONDS
                    yield other, Message("where")
            if waited >= _WAIT_SECONDS and now >= self._next[index]:
                self._next[index] = now + _AGAIN_SECONDS
                text = suspicion.describe_wait(self._seats, index, behind, now)
                yield index, Message("waiting", {"text": text})
