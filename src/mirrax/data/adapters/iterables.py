"""Adapter of lists, generators and other iterables."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mirrax.data.adapters.foreign import (
    ForeignSource,
    ForeignStream,
    IteratorStream,
    LookUpStream,
    counted,
)
from mirrax.data.plan.node import Node
from mirrax.trees import NotTraceableLeaf


def adapt(value: Any) -> Node | None:
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
