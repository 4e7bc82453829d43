"""Row numbers as streams of one column: for datasets whose rows can be looked up."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import ReplayedStream, State, Stream, as_count, take_up_to
from mirrax.data.plan.seeds import random_for

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class SequentialIndices(Stream):
    """All numbers below `count`, in order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._next = 0

    @override
    def take(self, limit: int) -> Columns | None:
        start = self._next
        self._next = min(start + limit, self._count)
        return [np.arange(start, self._next)] if start < self._next else None

    @override
    def state(self) -> State:
        return self._next

    @override
    def restore(self, state: State) -> None:
        self._next = as_count(state, self._count)


class ShuffledIndices(ReplayedStream):
    """Numbers in random order: each is drawn from a buffer that is then refilled."""

    def __init__(self, source: Stream, buffer_size: int, seed: tuple[int, ...]) -> None:
        self._source = source
        self._size = buffer_size
        self._random = random_for(*seed)
        self._buffer: list[int] | None = None
        self._rest: Numbers | None = None

    @override
    def _take(self, limit: int) -> Columns | None:
        numbers = self._next_numbers(limit)
        return [numbers] if len(numbers) else None

    def _next_numbers(self, limit: int) -> Numbers:
        if self._buffer is None:
            self._buffer = take_numbers(self._source, self._size).tolist()
        if self._rest is not None:
            return self._from_rest(limit)
        new = take_numbers(self._source, limit).tolist()
        drawn = self._draw(new)
        if len(new) == limit:
            return drawn
        self._rest = np.array(self._buffer, np.int64)
        self._rest = self._rest[self._random.permutation(len(self._rest))]
        return np.concatenate([drawn, self._from_rest(limit - len(drawn))])

    def _draw(self, new: list[int]) -> Numbers:
        """Replaces random numbers in the buffer by new ones, and returns them."""
        assert self._buffer is not None
        buffer, drawn = self._buffer, []
        slots = self._random.integers(0, max(len(buffer), 1), len(new)).tolist()
        for slot, number in zip(slots, new, strict=True):
            drawn.append(buffer[slot])
            buffer[slot] = number
        return np.array(drawn, np.int64)

    def _from_rest(self, limit: int) -> Numbers:
        assert self._rest is not None
        taken, self._rest = self._rest[:limit], self._rest[limit:]
        return taken


def take_numbers(indices: Stream, limit: int) -> Numbers:
    """Returns the next `limit` numbers, fewer only at the end."""
    pieces = [numbers for (numbers,) in take_up_to(indices, limit)]
    return np.concatenate([np.zeros(0, np.int64), *pieces])
