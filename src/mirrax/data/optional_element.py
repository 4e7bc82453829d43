"""TensorFlow's iterator methods: `get_next` and `get_next_as_optional`."""

from __future__ import annotations

import abc
from collections.abc import Iterator

from mirrax.errors import InvalidArgumentError, OutOfRangeError
from mirrax.trees import Driving, Tree


class OptionalElement(Driving):
    """An element, or none."""

    def __init__(self, held: tuple[Tree, ...]) -> None:
        self._held = held

    def has_value(self) -> bool:
        """Returns whether there is an element."""
        return bool(self._held)

    def get_value(self) -> Tree:
        """Returns the element; raises if there is none."""
        if not self._held:
            raise InvalidArgumentError("There is no element: the dataset has ended.")
        return self._held[0]


class GetNext(Iterator[Tree], abc.ABC):
    """TensorFlow's alternatives to `next`."""

    def get_next(self) -> Tree:
        """Returns the next element, or raises `OutOfRangeError` at the end."""
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("The dataset has no more elements.") from None

    def get_next_as_optional(self) -> OptionalElement:
        """Returns the next element, or that there is none."""
        try:
            return OptionalElement((next(self),))
        except StopIteration:
            return OptionalElement(())
