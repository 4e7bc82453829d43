"""Namedtuples in the results of exported functions, loaded without their classes.

The format of `jax.export` has none. They are exported as dicts of one key, which says
what their class and their fields are called.
"""

from __future__ import annotations

import collections
import functools
from typing import Any

import jax

from mirrax.trees import Tree

_KEY = "namedtuple"


def without_namedtuples(tree: Tree) -> Tree:
    """Returns a tree with a dict in place of each namedtuple."""

    def as_dict(node: Any) -> Any:
        if not _is_namedtuple(node):
            return node
        key = " ".join([_KEY, type(node).__name__, *node._fields])
        return {key: [without_namedtuples(value) for value in node]}

    return jax.tree.map(as_dict, tree, is_leaf=_is_namedtuple)


def with_namedtuples(tree: Tree) -> Tree:
    """Returns the tree that `without_namedtuples` was called with.

    >>> Point = collections.namedtuple("Point", "x y")
    >>> with_namedtuples(without_namedtuples([Point(1, (2, 3))]))
    [Point(x=1, y=(2, 3))]
    """

    def as_namedtuple(node: Any) -> Any:
        if not _is_described(node):
            return node
        ((key, values),) = node.items()
        _, name, *fields = key.split(" ")
        return _class(name, *fields)(*map(with_namedtuples, values))

    return jax.tree.map(as_namedtuple, tree, is_leaf=_is_described)


@functools.cache
def _class(name: str, *fields: str) -> Any:
    return collections.namedtuple(name, fields)


def _is_namedtuple(node: Any) -> bool:
    return isinstance(node, tuple) and hasattr(node, "_fields")


def _is_described(node: Any) -> bool:
    if not isinstance(node, dict) or len(node) != 1:
        return False
    (key,) = node
    return isinstance(key, str) and key.startswith(f"{_KEY} ")
