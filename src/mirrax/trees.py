"""Nested structures: tuples, lists, dicts and registered pytrees.

Mirrax' own containers (variables, distributed values) are pytree nodes for JAX, so that
JAX functions accept them. Here each is one leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

Tree = Any
"""A nested structure of user values."""


class Leaf:
    """Base of the containers that Mirrax treats as one leaf of a structure."""

    __slots__ = ()


class IdentityKey:
    """A dictionary key that compares by identity; variables compare by element."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(getattr(self.value, "name", self.value))

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self.value is other.value


_leaf_types: tuple[type, ...] = (Leaf,)
# Called for every node of every structure, so it is a C function if possible.
_is_leaf: Callable[[object], bool] = Leaf.__instancecheck__


def add_leaf_types(types: tuple[type, ...]) -> None:
    """Makes objects of these types of another library leaves."""
    global _leaf_types, _is_leaf  # noqa: PLW0603 - read on every flattening
    _leaf_types = (*_leaf_types, *types)
    _is_leaf = is_leaf


def is_leaf(value: object) -> bool:
    """Returns whether `value` is one of our containers, or another library's."""
    return isinstance(value, _leaf_types)


def flatten(tree: Tree) -> tuple[list[Any], Any]:
    """Returns the leaves of `tree` and its structure; None counts as structure."""
    return jax.tree.flatten(tree, is_leaf=_is_leaf)


def leaves(tree: Tree) -> list[Any]:
    """Returns the leaves of `tree`."""
    return jax.tree.leaves(tree, is_leaf=_is_leaf)


def unflatten(structure: Any, values: Sequence[Any]) -> Tree:
    """Returns the tree with `structure` and these leaves."""
    return structure.unflatten(values)


def map_leaves(fn: Callable[..., Any], tree: Tree, *rest: Tree) -> Tree:
    """Returns `tree` with `fn` applied to its leaves, and to those of `rest`."""
    return jax.tree.map(fn, tree, *rest, is_leaf=_is_leaf)


class Driving(Leaf):
    """Base of arguments that need Python, such as datasets and iterators.

    A function with such an argument drives compiled steps from Python.
    """

    __slots__ = ()
