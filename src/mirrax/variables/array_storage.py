"""Where variables store their arrays, and how a program reaches many at once.

A slot is a container and a key: a list and an index, or a dictionary and a name. The
variables that one program writes share a *storage list*, so that a call passes that
list to the program instead of asking each variable for its array.
"""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from mirrax.variables import aliasing

Slot = tuple[Any, Any]
"""A list and an index, or a dictionary and a key."""


class Stored:
    """Stores one array.

    Attributes:
        is_aliased: Whether the user may hold a view of it, so that it must not be
            overwritten.
    """

    __slots__ = ("__dict__", "__weakref__", "_slot", "is_aliased")

    _slot: Slot
    is_aliased: bool

    @property
    def stored(self) -> jax.Array:
        """The array between programs."""
        # Another thread may be moving it: retry until the slot is stable.
        while True:
            slot = container, key = self._slot
            array: jax.Array = container[key]
            if slot is self._slot:
                return array

    @stored.setter
    def stored(self, array: jax.Array) -> None:
        container, key = self._slot
        container[key] = array

    def store(self, array: jax.Array) -> None:
        """Stores `array`, which nobody else may hold."""
        with aliasing.lock:
            self.stored = array
            self.is_aliased = False

    def slot(self) -> Slot | None:
        """The slot of the array; None if programs must use `stored`."""
        return self._slot

    def move_to(self, slot: Slot) -> None:
        """Switches to another slot, which holds the array already."""
        container, key = self._slot
        self._slot = slot
        container[key] = None

    def __del__(self) -> None:
        # Other variables of a program may keep the storage list alive.
        slot = getattr(self, "_slot", None)
        if slot is not None:
            container, key = slot
            container[key] = None


class Slots:
    """The slots of several arrays, in order."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._containers = tuple([container for container, _ in slots])
        self._keys = tuple([key for _, key in slots])

    def read(self) -> list[Any]:
        return list(map(operator.getitem, self._containers, self._keys))

    def write(self, arrays: Iterable[Any], num_rest: int = 0) -> Sequence[Any]:
        """Stores `arrays`; returns the `num_rest` further ones.

        No Python bytecode runs in between, so a KeyboardInterrupt comes before or
        after, even when iterating `arrays` runs the program that makes them.
        """
        rest: list[Any] = [None] * num_rest
        containers = itertools.chain(self._containers, itertools.repeat(rest, num_rest))
        keys = itertools.chain(self._keys, range(num_rest))
        collections.deque(map(operator.setitem, containers, keys, arrays), maxlen=0)
        return rest


def in_storage_order(variables: Sequence[Any]) -> list[Any]:
    """Returns variables in the order of their storage list, if they share one."""
    slots = _list_slots(variables)
    if len({id(container) for container, _ in slots}) != 1:
        return list(variables)
    pairs = zip(slots, variables, strict=True)
    return [variable for _, variable in sorted(pairs, key=lambda pair: pair[0][1])]


def storage_list_of(variables: Sequence[Stored]) -> list[Any] | None:
    """Returns a list that stores just the arrays of `variables`, in order.

    Moves the variables there. Returns None if one has no slot in a list, or if some
    share a list with at least as many others, which would lose more than these gain.
    A list with gaps is compacted.
    """
    slots = _list_slots(variables)
    if not slots:
        return None
    lists = {id(container): container for container, _ in slots}
    first = slots[0][0]
    if len(lists) == 1 and [i for _, i in slots] == list(range(len(first))):
        return first
    sizes = [sum(array is not None for array in each) for each in lists.values()]
    has_gaps = sizes == [len(slots)] and len(first) > len(slots)
    if max(sizes) >= max(len(slots), 2) and not has_gaps:
        return None
    storage = [variable.stored for variable in variables]
    for index, variable in enumerate(variables):
        variable.move_to((storage, index))
    aliasing.counters.moves += 1
    return storage


def _list_slots(variables: Sequence[Stored]) -> list[tuple[list[Any], int]]:
    """Returns the slots of variables; none unless all of them are in lists."""
    slots = [variable.slot() for variable in variables]
    found = [slot for slot in slots if slot is not None and type(slot[0]) is list]
    return found if len(found) == len(slots) else []
