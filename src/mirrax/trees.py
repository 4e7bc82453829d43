"""Nested structures: tuples, lists, dicts and registered pytrees.

Mirrax' own containers (variables, distributed values) are pytree nodes for JAX, so that
JAX functions accept them. Here each is one leaf.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax

Tree = Any
"""A nested structure of user values."""

_MAX_REACHABLE = 10_000

# What `jax.tree.flatten` calls, as this is part of every step.
_flatten: Callable[..., tuple[list[Any], Any]] = jax.tree_util.default_registry.flatten


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
    _is_leaf_type.cache_clear()


def is_leaf(value: object) -> bool:
    """Returns whether `value` is one of our containers, or another library's."""
    return _is_leaf_type(type(value))  # type: ignore[arg-type]


# Classes of other libraries may have a slow `isinstance`.
@functools.lru_cache(maxsize=1024)
def _is_leaf_type(kind: type) -> bool:
    return issubclass(kind, _leaf_types)


def flatten(tree: Tree) -> tuple[list[Any], Any]:
    """Returns the leaves of `tree` and its structure; None counts as structure."""
    return _flatten(tree, _is_leaf)


def flatten_plain(tree: Tree) -> tuple[list[Any], Any]:
    """Returns the same, and faster, if Mirrax' containers are not in `tree`."""
    return _flatten(tree)


def leaves(tree: Tree) -> list[Any]:
    """Returns the leaves of `tree`."""
    return flatten(tree)[0]


def unflatten(structure: Any, values: Sequence[Any]) -> Tree:
    """Returns the tree with `structure` and these leaves."""
    return structure.unflatten(values)


def map_leaves(fn: Callable[[Any], Any], tree: Tree) -> Tree:
    """Returns `tree` with `fn` applied to its leaves."""
    values, structure = flatten(tree)
    return structure.unflatten(map(fn, values))


def reachable(
    root: Any, inside: Callable[[Any], Iterable[tuple[str, Any]]]
) -> Iterator[tuple[str, Any]]:
    """Yields what is reachable from an object and its path, the nearest first.

    Ends after many objects, which are data.

    Args:
        inside: Returns the objects directly inside another, with their paths in it.
    """
    # Seen objects are kept alive, so that their ids stay unique.
    seen: dict[int, Any] = {}
    waiting = collections.deque([("", root)])
    while waiting and len(seen) < _MAX_REACHABLE:
        path, value = waiting.popleft()
        if id(value) not in seen:
            seen[id(value)] = value
            yield path, value
            waiting.extend((path + step, inner) for step, inner in inside(value))


class NotTraceableLeaf(Leaf):
    """Base of arguments that cannot be traced, such as datasets and iterators.

    A function with such an argument runs as Python, and each `run` in it is compiled.
    """

    __slots__ = ()
