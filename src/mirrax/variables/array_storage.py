"""Where variables keep their arrays, and how a program reaches many at once."""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import jax

from mirrax.variables import aliasing


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
        with aliasing.lock:
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


Place = tuple[Any, Any]
"""A list and an index, or a dictionary and a key."""


class Places:
    """The places of several arrays, in order."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._holders = tuple([holder for holder, _ in places])
        self._keys = tuple([key for _, key in places])

    def read(self) -> list[Any]:
        """Returns what is there."""
        return list(map(operator.getitem, self._holders, self._keys))

    def write(self, arrays: Iterable[Any], num_rest: int = 0) -> Sequence[Any]:
        """Puts `arrays` there; returns as many more of them as `num_rest` says.

        One step for Python, so that an interruption comes before it or after it, also
        when `arrays` runs the program that makes them.
        """
        rest: list[Any] = [None] * num_rest
        holders = itertools.chain(self._holders, itertools.repeat(rest, num_rest))
        keys = itertools.chain(self._keys, range(num_rest))
        collections.deque(map(operator.setitem, holders, keys, arrays), maxlen=0)
        return rest


class Movable(Protocol):
    """What can be made to lie in a row."""

    @property
    def stored(self) -> Any:
        """What lies there."""

    def place(self) -> Place | None:
        """Where it lies."""

    def move(self, place: Place) -> None:
        """Makes it lie elsewhere, where it was put already."""


def in_order_of_row(variables: Sequence[Any]) -> list[Any]:
    """Returns variables in the order of the list they lie in, if it is one list."""
    places = _in_lists(variables)
    if len({id(row) for row, _ in places}) != 1:
        return list(variables)
    pairs = zip(places, variables, strict=True)
    return [variable for _, variable in sorted(pairs, key=lambda pair: pair[0][1])]


def row_of(variables: Sequence[Movable]) -> list[Any] | None:
    """Returns a list of just the arrays of `variables`, in order, where they lie.

    They are moved there, unless some lie in a row of at least as many: more is gained
    by leaving them. Then there is None, as where a variable has no place in a list. A
    row in which others have left gaps is closed up.
    """
    places = _in_lists(variables)
    if not places:
        return None
    rows = {id(row): row for row, _ in places}
    first = places[0][0]
    if len(rows) == 1 and [i for _, i in places] == list(range(len(first))):
        return first
    sizes = [sum(array is not None for array in row) for row in rows.values()]
    has_gaps = sizes == [len(places)] and len(first) > len(places)
    if max(sizes) >= max(len(places), 2) and not has_gaps:
        return None
    row = [variable.stored for variable in variables]
    for index, variable in enumerate(variables):
        variable.move((row, index))
    aliasing.ledger.moves += 1
    return row


def _in_lists(variables: Sequence[Movable]) -> list[tuple[list[Any], int]]:
    """Returns the places of variables; none unless all of them are in lists."""
    places = [variable.place() for variable in variables]
    found = [place for place in places if place is not None and type(place[0]) is list]
    return found if len(found) == len(places) else []
