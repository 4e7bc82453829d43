"""What an iterator gives that does not raise at the end."""

from __future__ import annotations

from mirrax.errors import InvalidArgumentError
from mirrax.trees import Tree
from mirrax.values.driving import Driving


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
