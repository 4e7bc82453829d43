"""Streams: elements that are read in order, from a position that can be saved."""

from __future__ import annotations

import abc
import sys
from collections.abc import Iterable
from typing import Any, TypeVar

from mirrax.data.plan.columns import Columns, num_rows
from mirrax.errors import InvalidArgumentError

T = TypeVar("T")

_SKIPPED_ROWS = 64

State = Any
"""A position in a stream, as numbers, lists and strings."""


class Stream(abc.ABC):
    """The elements of a node, in order.

    `structure` is the tree structure of an element, known after the first `take`.
    `chunk` is how many elements to take at once when they are used one by one.
    """

    structure: Any = None
    chunk: int = 1

    @abc.abstractmethod
    def take(self, limit: int) -> Columns | None:
        """Returns at most `limit` elements, and at least one; None at the end."""

    @abc.abstractmethod
    def state(self) -> State:
        """Returns the position of the next element."""

    @abc.abstractmethod
    def restore(self, state: State) -> None:
        """Restores a position, before the first `take`."""


class NumberedStream(Stream):
    """A stream whose position is the number of the next element, up to `_end`."""

    _next = 0
    _end = sys.maxsize

    def state(self) -> State:
        return self._next

    def restore(self, state: State) -> None:
        self._next = as_count(state, self._end)


class SourceStream(Stream):
    """The elements of a node of one source.

    The position is a count, which some nodes need, and the position of the source.
    """

    _count = 0

    def __init__(self, source: Stream, node: Any) -> None:
        self._source = source
        self._node = node

    def state(self) -> State:
        return [self._count, self._source.state()]

    def restore(self, state: State) -> None:
        count, inner = state
        self._count = as_count(count)
        self._source.restore(inner)


class ReplayedStream(Stream):
    """A stream whose position is a count; restores by taking as many elements."""

    _taken = 0

    def take(self, limit: int) -> Columns | None:
        columns = self._take(limit)
        if columns is not None:
            self._taken += num_rows(columns)
        return columns

    @abc.abstractmethod
    def _take(self, limit: int) -> Columns | None:
        """Returns at most `limit` elements, and at least one; None at the end."""

    def state(self) -> State:
        return self._taken

    def restore(self, state: State) -> None:
        skip(self, state)


class DelayingStream(Stream):
    """A stream that raises an error only after the elements before it."""

    _error: Exception | None = None

    def take(self, limit: int) -> Columns | None:
        if self._error is not None:
            raise self._error
        return self._take(limit)

    @abc.abstractmethod
    def _take(self, limit: int) -> Columns | None:
        """Returns at most `limit` elements, and at least one; None at the end."""

    def _until_error(self, items: Iterable[T]) -> list[T]:
        """Returns the items before an error, which the next `take` raises."""
        found: list[T] = []
        try:
            for item in items:
                found.append(item)
        except Exception as error:
            if not found:
                raise
            self._error = error
        return found


def take_up_to(stream: Stream, count: int) -> list[Columns]:
    """Returns the next `count` elements of a stream in pieces, fewer at its end."""
    parts: list[Columns] = []
    while count and (columns := stream.take(count)) is not None:
        parts.append(columns)
        count -= num_rows(columns)
    return parts


def skip(stream: Stream, count: int) -> None:
    """Takes `count` elements of a stream, to restore its position."""
    skipped = skip_up_to(stream, as_count(count))
    if skipped < count:
        raise position_error(count, skipped)


def skip_up_to(stream: Stream, count: int) -> int:
    """Takes up to `count` elements of a stream; returns how many there were."""
    left = count
    while left:
        # Few at once, because a stream holds all that it is asked for.
        columns = stream.take(min(left, max(stream.chunk, _SKIPPED_ROWS)))
        if columns is None:
            break
        left -= num_rows(columns)
        del columns
    return count - left


def as_count(value: Any, end: int = sys.maxsize) -> int:
    """Returns a number of a position; raises unless it is one from 0 to `end`."""
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is no count")
    if value > end:
        raise position_error(value, end)
    return value


def position_error(position: int, end: int) -> ValueError:
    """Returns the error for a position after the end of the data."""
    return ValueError(
        "A dataset must hold what it held when its position was saved. Received: "
        f"position {position}, but it ends after {end} elements."
    )


def require_same_structure(known: Any, found: Any, what: str) -> Any:
    """Returns the structure `found`; raises if it differs from a known one."""
    if known is not None and known != found:
        raise InvalidArgumentError(
            f"{what} must have elements of the same structure. Received: {found} after "
            f"{known}."
        )
    return found
