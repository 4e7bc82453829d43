"""Elements that another library gives, one after another."""

from __future__ import annotations

import abc
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.adapters.elements import as_element
from mirrax.data.columns import STRING, Columns, from_rows
from mirrax.data.node import UNKNOWN, Epoch, Node, State, Stream, position_error
from mirrax.values.tensor_spec import TensorSpec


class Cursor(abc.ABC):
    """Goes through what a library gives."""

    @abc.abstractmethod
    def next(self) -> Any:
        """Returns the next element as the library gives it; raises StopIteration."""

    @abc.abstractmethod
    def state(self) -> State:
        """Returns the position of the next element, as what JSON can hold."""

    @abc.abstractmethod
    def restore(self, state: State) -> None:
        """Goes to a position, before anything was taken."""


class IteratorCursor(Cursor):
    """Elements of an iterable that has no positions: it is read again and skipped.

    Args:
        begin: Starts anew; called once there is something to read, because starting
            may take random numbers.
        name: What is read.
    """

    def __init__(self, begin: Callable[[], Iterator[Any]], name: str) -> None:
        self._begin = begin
        self._name = name
        self._begun: Iterator[Any] | None = None
        self._taken = 0

    @override
    def next(self) -> Any:
        if self._begun is None:
            self._begun = self._begin()
        element = next(self._begun)
        self._taken += 1
        return element

    @override
    def state(self) -> State:
        return self._taken

    @override
    def restore(self, state: State) -> None:
        if not state:
            return
        warnings.warn(
            f"[mirrax] {self._name} cannot go to a position, so everything before it "
            "is read again and skipped. It must give the same order again: give it a "
            "seed if it shuffles.",
            stacklevel=2,
        )
        while self._taken < state:
            try:
                self.next()
            except StopIteration:
                raise position_error(state, self._taken) from None


class IndexedCursor(Cursor):
    """Elements that are looked up by number.

    Args:
        look_up: Returns the element with a number; None if it is left out.
        count: How many numbers there are; None if there is no end.
    """

    def __init__(self, look_up: Callable[[int], Any], count: int | None) -> None:
        self._look_up = look_up
        self._count = count
        self._next = 0

    @override
    def next(self) -> Any:
        element = None
        while element is None:
            if self._next == self._count:
                raise StopIteration
            element = self._look_up(self._next)
            self._next += 1
        return element

    @override
    def state(self) -> State:
        return self._next

    @override
    def restore(self, state: State) -> None:
        if self._count is not None and state > self._count:
            raise position_error(state, self._count)
        self._next = state


@dataclasses.dataclass(frozen=True, eq=False)
class ForeignSource(Node):
    """What another library gives.

    Args:
        name: What it is.
        open_cursor: Starts anew.
        count: How many elements there are, INFINITE or UNKNOWN.
        peek: Returns the first element, if that is no good reason to start.
    """

    is_expensive = True

    name: str
    open_cursor: Callable[[], Cursor] = dataclasses.field(repr=False)
    count: int = UNKNOWN
    peek: Callable[[], Any] | None = dataclasses.field(default=None, repr=False)

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _ForeignStream(self.open_cursor())

    @property
    @override
    def spec(self) -> Any:
        """The shapes and dtypes of the first element: sizes may differ later."""
        peek = self.peek or self.open_cursor().next
        try:
            return spec_of(peek())
        except StopIteration:
            return None

    @property
    @override
    def cardinality(self) -> int:
        return self.count


class _ForeignStream(Stream):
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    @override
    def take(self, limit: int) -> Columns | None:
        # One at a time: what is not asked for stays in the library.
        try:
            element = self._cursor.next()
        except StopIteration:
            return None
        leaves, self.structure = jax.tree.flatten(as_element(element))
        return from_rows([leaves])

    @override
    def state(self) -> State:
        return self._cursor.state()

    @override
    def restore(self, state: State) -> None:
        self._cursor.restore(state)


def spec_of(element: Any) -> Any:
    """Returns the spec of an element as a library gives it."""
    return jax.tree.map(_spec, as_element(element))


def _spec(leaf: Any) -> TensorSpec:
    if isinstance(leaf, bytes):
        return TensorSpec((), STRING)
    array = np.asarray(leaf)
    # Batches may become smaller: the size of the first says nothing about the last.
    shape = (None, *array.shape[1:]) if array.ndim else ()
    return TensorSpec(shape, array.dtype)
