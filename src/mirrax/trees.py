"""Nested structures: tuples, lists, dicts and registered pytrees, with our leaves.

Mirrax' own containers (variables, distributed values) are pytree nodes for JAX, so that
JAX functions accept them; for us each is one leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

Tree = Any
"""A nested structure of the user's."""


class Leaf:
    """Base of the containers that Mirrax treats as one leaf of a structure."""

    __slots__ = ()


def is_leaf(value: object) -> bool:
    """Returns whether `value` is one of our containers."""
    return isinstance(value, Leaf)


def flatten(tree: Tree) -> tuple[list[Any], Any]:
    """Returns the leaves of `tree` and its structure; None counts as structure."""
    return jax.tree.flatten(tree, is_leaf=is_leaf)


def leaves(tree: Tree) -> list[Any]:
    """Returns the leaves of `tree`."""
    return jax.tree.leaves(tree, is_leaf=is_leaf)


def unflatten(structure: Any, values: Sequence[Any]) -> Tree:
    """Returns the tree with `structure` and these leaves."""
    return jax.tree.unflatten(structure, values)


def map_leaves(fn: Callable[..., Any], tree: Tree, *rest: Tree) -> Tree:
    """Returns `tree` with `fn` applied to its leaves, and to those of `rest`."""
    return jax.tree.map(fn, tree, *rest, is_leaf=is_leaf)
