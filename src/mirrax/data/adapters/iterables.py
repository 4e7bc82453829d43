"""Iterables, and other libraries' data, as sources of elements with a position."""

from __future__ import annotations

import abc
import dataclasses
import functools
import inspect
import itertools
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.adapters.elements import as_element
from mirrax.data.plan.columns import STRING, Columns, from_rows
from mirrax.data.plan.node import UNKNOWN, Epoch, Node
from mirrax.data.plan.streams import (
    NumberedStream,
    ReplayedStream,
    State,
    Stream,
    as_count,
)
from mirrax.trees import NotTraceableLeaf
from mirrax.values.tensor_spec import TensorSpec


class ForeignStream(Stream):
    """Reads another library's data."""

    @abc.abstractmethod
    def next(self) -> Any:
        """Returns the library's next element; raises StopIteration."""

    @override
    def take(self, limit: int) -> Columns | None:
        # One at a time, so that nothing is read ahead.
        try:
            element = self.next()
        except StopIteration:
            return None
        leaves, self.structure = jax.tree.flatten(as_element(element))
        return from_rows([leaves])


class IteratorStream(ReplayedStream, ForeignStream):
    """Iterates over data without random access; restores by skipping elements.

    Args:
        begin: Returns a new iterator; called at the first `next`, because it may draw
            random numbers.
    """

    def __init__(self, begin: Callable[[], Iterator[Any]], name: str) -> None:
        self._begin = begin
        self._name = name
        self._begun: Iterator[Any] | None = None

    @override
    def next(self) -> Any:
        if self._begun is None:
            self._begun = self._begin()
        return next(self._begun)

    @override
    def _take(self, limit: int) -> Columns | None:
        return ForeignStream.take(self, limit)

    @override
    def restore(self, state: State) -> None:
        if as_count(state):
            warnings.warn(
                f"[mirrax] {self._name} cannot go to a position, so everything before "
                "it is read again and skipped. The order must be the same: set a seed "
                "if it shuffles.",
                stacklevel=2,
            )
        super().restore(state)


class LookUpStream(NumberedStream, ForeignStream):
    """Iterates over data by index.

    Args:
        look_up: Returns the element at an index; None to skip it.
        count: The number of indices; None if infinite.
    """

    def __init__(self, look_up: Callable[[int], Any], count: int | None) -> None:
        self._look_up = look_up
        self._end = sys.maxsize if count is None else count

    @override
    def next(self) -> Any:
        element = None
        while element is None:
            if self._next == self._end:
                raise StopIteration
            element = self._look_up(self._next)
            self._next += 1
        return element


@dataclasses.dataclass(frozen=True, eq=False)
class ForeignSource(Node):
    """The elements of another library's data.

    Args:
        peek: Returns the first element without consuming it.
        gives_rows: Whether an element is a row, not a batch.
    """

    is_expensive = True

    name: str
    open_stream: Callable[[], ForeignStream] = dataclasses.field(repr=False)
    cardinality: int = UNKNOWN
    peek: Callable[[], Any] | None = dataclasses.field(default=None, repr=False)
    gives_rows: bool = dataclasses.field(default=False, repr=False)

    @override
    def open(self, epoch: Epoch) -> Stream:
        return self.open_stream()

    @functools.cached_property
    @override
    def spec(self) -> Any:
        """The spec of the first element; first dimensions may vary."""
        peek = self.peek or self.open_stream().next
        try:
            return spec_of(peek())
        except StopIteration:
            return None


def counted(
    name: str,
    begin: Callable[[], Iterator[Any]],
    cardinality: int = UNKNOWN,
    gives_rows: bool = False,
) -> ForeignSource:
    """Returns data without random access, whose position is a count."""
    return ForeignSource(
        name, lambda: IteratorStream(begin, name), cardinality, gives_rows=gives_rows
    )


def spec_of(element: Any) -> Any:
    """Returns the spec of a library's element."""
    return jax.tree.map(_spec, as_element(element))


def _spec(leaf: Any) -> TensorSpec:
    if isinstance(leaf, bytes):
        return TensorSpec((), STRING)
    array = np.asarray(leaf)
    # The last batch may be smaller.
    shape = (None, *array.shape[1:]) if array.ndim else ()
    return TensorSpec(shape, array.dtype)


def adapt_iterable(value: Any) -> Node | None:
    """Returns the items of an iterable, each an element."""
    name = f"`{type(value).__name__}`"
    if isinstance(value, str | bytes | tuple | dict | NotTraceableLeaf):
        return None
    if isinstance(value, Sequence):
        count = len(value)
        return ForeignSource(
            name, lambda: LookUpStream(value.__getitem__, count), count
        )
    if inspect.isgeneratorfunction(value):
        return counted(f"`{value.__name__}()`", value)
    if isinstance(value, Iterator):
        once = _Once(value, name)
        return ForeignSource(name, once.open, peek=once.peek)
    if isinstance(value, Iterable):
        return counted(name, lambda: iter(value))
    return None


class _Once:
    """An iterator, which can be consumed only once."""

    def __init__(self, elements: Iterator[Any], name: str) -> None:
        self._elements = elements
        self._name = name
        self._is_begun = False

    def open(self) -> ForeignStream:
        """Returns a stream; the first one that is used gets the elements."""
        return IteratorStream(self._begin, self._name)

    def peek(self) -> Any:
        """Returns the first element without consuming it."""
        first = next(self._elements)
        self._elements = itertools.chain([first], self._elements)
        return first

    def _begin(self) -> Iterator[Any]:
        if self._is_begun:
            raise RuntimeError(
                "An iterator can be consumed once, and a dataset restarts for each "
                f"iteration. Received: {self._name} a second time. Pass the generator "
                "function itself, or a list."
            )
        self._is_begun = True
        return self._elements
