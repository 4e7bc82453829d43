"""Where the arrays of variables are kept: an object and a key, for `object[key]`.

A program reads and writes all its variables on every call. It does so in lists and
dictionaries, without calling any code of the variables.
"""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

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
