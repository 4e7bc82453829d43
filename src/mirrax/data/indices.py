"""Row numbers as streams of one column: for datasets whose rows can be looked up."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.columns import Columns
from mirrax.data.node import State, Stream, position_error

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
        if state > self._count:
            raise position_error(state, self._count)
        self._next = state


class ShuffledIndices(Stream):
    """Numbers in random order: each is drawn from a buffer that is then refilled."""

    def __init__(self, source: Stream, buffer_size: int, seed: tuple[int, ...]) -> None:
        self._source = source
        self._size = buffer_size
        self._random = random_for(*seed)
        self._buffer: list[int] | None = None
        self._rest: Numbers | None = None
        self._taken = 0

    @override
    def take(self, limit: int) -> Columns | None:
        numbers = self._take(limit)
        self._taken += len(numbers)
        return [numbers] if len(numbers) else None

    @override
    def state(self) -> State:
        return self._taken

    @override
    def restore(self, state: State) -> None:
        self.take(state)

    def _take(self, limit: int) -> Numbers:
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
    pieces: list[Numbers] = [np.zeros(0, np.int64)]
    while limit and (columns := indices.take(limit)) is not None:
        pieces += columns
        limit -= len(columns[0])
    return np.concatenate(pieces)


def random_for(*seed: int) -> np.random.Generator:
    """Returns a random generator that depends on these numbers alone."""
    words = [number % 2**64 for number in seed]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))
