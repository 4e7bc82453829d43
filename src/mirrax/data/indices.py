"""Streams of row numbers: orders of datasets whose rows can be looked up."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import override

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Indices(abc.ABC):
    """Row numbers, from front to back."""

    @abc.abstractmethod
    def take(self, limit: int) -> Numbers:
        """Returns at most `limit` numbers; none at the end."""

    @abc.abstractmethod
    def state(self) -> Any:
        """Returns the position of the next number."""

    @abc.abstractmethod
    def restore(self, state: Any) -> None:
        """Goes to a position, before anything was taken."""


class SequentialIndices(Indices):
    """All numbers below `count`, in order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._next = 0

    @override
    def take(self, limit: int) -> Numbers:
        start = self._next
        self._next = min(start + limit, self._count)
        return np.arange(start, self._next)

    @override
    def state(self) -> Any:
        return self._next

    @override
    def restore(self, state: Any) -> None:
        if state > self._count:
            raise ValueError(
                "A dataset must hold what it held when its position was saved. "
                f"Received: position {state}, but it has {self._count} elements."
            )
        self._next = state


class ShuffledIndices(Indices):
    """Numbers in random order: each drawn from a buffer that is filled up again."""

    def __init__(
        self, source: Indices, buffer_size: int, seed: tuple[int, ...]
    ) -> None:
        self._source = source
        self._size = buffer_size
        self._random = random_for(*seed)
        self._buffer: list[int] | None = None
        self._rest: Numbers | None = None
        self._taken = 0

    @override
    def take(self, limit: int) -> Numbers:
        numbers = self._take(limit)
        self._taken += len(numbers)
        return numbers

    @override
    def state(self) -> Any:
        return self._taken

    @override
    def restore(self, state: Any) -> None:
        self.take(state)

    def _take(self, limit: int) -> Numbers:
        if self._buffer is None:
            self._buffer = self._source.take(self._size).tolist()
        if self._rest is not None:
            return self._from_rest(limit)
        new = self._source.take(limit).tolist() if limit else []
        drawn = self._draw(new)
        if len(new) == limit:
            return drawn
        self._rest = np.array(self._buffer, np.int64)
        self._rest = self._rest[self._random.permutation(len(self._rest))]
        return np.concatenate([drawn, self._from_rest(limit - len(drawn))])

    def _draw(self, new: list[int]) -> Numbers:
        """Takes as many numbers out of the buffer as come in."""
        assert self._buffer is not None
        buffer, drawn = self._buffer, []
        places = self._random.integers(0, max(len(buffer), 1), len(new)).tolist()
        for place, number in zip(places, new, strict=True):
            drawn.append(buffer[place])
            buffer[place] = number
        return np.array(drawn, np.int64)

    def _from_rest(self, limit: int) -> Numbers:
        assert self._rest is not None
        taken, self._rest = self._rest[:limit], self._rest[limit:]
        return taken


class RepeatedIndices(Indices):
    """Numbers again and again: `open_source(i)` gives those of repetition `i`."""

    def __init__(
        self, open_source: Callable[[int], Indices], count: int | None
    ) -> None:
        self._open = open_source
        self._count = count
        self._repetition = 0
        self._source = open_source(0)

    @override
    def take(self, limit: int) -> Numbers:
        if self._count == 0:
            return np.zeros(0, np.int64)
        pieces: list[Numbers] = []
        missing, is_fresh = limit, False
        while missing:
            piece = self._source.take(missing)
            pieces.append(piece)
            missing -= len(piece)
            if len(piece) or not missing:
                is_fresh = False
                continue
            is_last = self._count is not None and self._repetition + 1 >= self._count
            if is_last or is_fresh:
                break
            is_fresh = True
            self._repetition += 1
            self._source = self._open(self._repetition)
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)

    @override
    def state(self) -> Any:
        return [self._repetition, self._source.state()]

    @override
    def restore(self, state: Any) -> None:
        self._repetition, inner = state
        self._source = self._open(self._repetition)
        self._source.restore(inner)


class StridedIndices(Indices):
    """Every `step`th number, from the one at `offset` on."""

    def __init__(self, source: Indices, step: int, offset: int) -> None:
        self._source = source
        self._step = step
        self._offset = offset
        self._seen = 0

    @override
    def take(self, limit: int) -> Numbers:
        seen = self._source.take(limit * self._step)
        own = seen[(self._offset - self._seen) % self._step :: self._step]
        self._seen += len(seen)
        return own

    @override
    def state(self) -> Any:
        return [self._seen, self._source.state()]

    @override
    def restore(self, state: Any) -> None:
        self._seen, inner = state
        self._source.restore(inner)


class LimitedIndices(Indices):
    """The numbers from `start` on, at most `count` of them."""

    def __init__(self, source: Indices, start: int, count: int | None) -> None:
        self._source = source
        self._to_skip = start
        self._left = count

    @override
    def take(self, limit: int) -> Numbers:
        while self._to_skip:
            skipped = len(self._source.take(self._to_skip))
            self._to_skip = self._to_skip - skipped if skipped else 0
        if self._left is not None:
            limit = min(limit, self._left)
        numbers = self._source.take(limit) if limit else np.zeros(0, np.int64)
        if self._left is not None:
            self._left -= len(numbers)
        return numbers

    @override
    def state(self) -> Any:
        return [self._to_skip, self._left, self._source.state()]

    @override
    def restore(self, state: Any) -> None:
        self._to_skip, self._left, inner = state
        self._source.restore(inner)


def random_for(*seed: int) -> np.random.Generator:
    """Returns random numbers that depend on these numbers alone."""
    words = [number % 2**64 for number in seed]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))
