"""Arguments that make a function drive compiled steps from Python."""

from __future__ import annotations

from mirrax.trees import Leaf


class Driving(Leaf):
    """Base of what only Python can work through, such as datasets and iterators."""

    __slots__ = ()
