"""Keeps the order of the keys of dicts.

JAX sorts the keys of a `dict`, but not those of an `OrderedDict`.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
from typing import Any

_DICTS = (dict, collections.OrderedDict)


def ordered(tree: Any) -> Any:
    """Returns a structure whose unsorted dicts are `OrderedDict`s, for JAX.

    >>> ordered(({"b": 1, "a": 2}, {"a": 3, "b": 4}))
    (OrderedDict({'b': 1, 'a': 2}), {'a': 3, 'b': 4})
    """
    if type(tree) is dict:
        values = {key: ordered(value) for key, value in tree.items()}
        return values if _is_sorted(list(values)) else collections.OrderedDict(values)
    return _inside(tree, ordered)


def plain(tree: Any) -> Any:
    """Returns a structure with dicts in place of `OrderedDict`s, for the user.

    >>> plain([ordered({"b": 1, "a": 2})])
    [{'b': 1, 'a': 2}]
    """
    if type(tree) is collections.OrderedDict:
        return {key: plain(value) for key, value in tree.items()}
    return _inside(tree, plain)


def ordered_like(example: Any, tree: Any) -> Any:
    """Returns a structure with the dicts of another, where their keys are the same.

    >>> ordered_like(ordered({"b": 0, "a": 0}), {"a": 1, "b": 2})
    OrderedDict({'b': 2, 'a': 1})
    """
    if isinstance(example, dict) and isinstance(tree, dict):
        if example.keys() != tree.keys() or type(example) not in _DICTS:
            return tree
        pairs = {key: ordered_like(example[key], tree[key]) for key in example}
        return type(example)(pairs)
    is_sequence = isinstance(example, list | tuple) and isinstance(tree, list | tuple)
    if not is_sequence or len(example) != len(tree):
        return tree
    return _like(
        tree, [ordered_like(*pair) for pair in zip(example, tree, strict=True)]
    )


def _inside(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a dict, list or tuple with its values changed; itself if none is."""
    if type(tree) is dict:
        values = {key: change(value) for key, value in tree.items()}
        return tree if all(values[key] is tree[key] for key in tree) else values
    if type(tree) in (list, tuple) or hasattr(tree, "_fields"):
        items = [change(item) for item in tree]
        same = all(new is old for new, old in zip(items, tree, strict=True))
        return tree if same else _like(tree, items)
    return tree


def _like(sequence: Any, items: list[Any]) -> Any:
    kind = type(sequence)
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def _is_sorted(keys: list[Any]) -> bool:
    try:
        return all(a <= b for a, b in itertools.pairwise(keys))
    except TypeError:
        return True
