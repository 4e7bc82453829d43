"""What a variable holds between programs: one array, at a place that can change."""

from __future__ import annotations

import jax

from mirrax.variables import lending
from mirrax.variables.places import Place


class Stored:
    """Holds one array.

    Attributes:
        is_lent: Whether the user may hold a view of it, so that it must not be
            overwritten.
    """

    __slots__ = ("__dict__", "__weakref__", "_place", "is_lent")

    _place: Place
    is_lent: bool

    @property
    def stored(self) -> jax.Array:
        """The array between programs."""
        # Another thread may just be moving it.
        while True:
            place = holder, key = self._place
            array: jax.Array = holder[key]
            if place is self._place:
                return array

    @stored.setter
    def stored(self, array: jax.Array) -> None:
        holder, key = self._place
        holder[key] = array

    def store(self, array: jax.Array) -> None:
        """Makes `array`, which nobody else holds, the value between programs."""
        with lending.lock:
            self.stored = array
            self.is_lent = False

    def place(self) -> Place | None:
        """Where programs find `stored` without calling us; None if they must call."""
        return self._place

    def move(self, place: Place) -> None:
        """Keeps the array at another place, where it is already."""
        holder, key = self._place
        self._place = place
        holder[key] = None

    def __del__(self) -> None:
        # A program's other variables may go on to use the list that it lies in.
        place = getattr(self, "_place", None)
        if place is not None:
            holder, key = place
            holder[key] = None
