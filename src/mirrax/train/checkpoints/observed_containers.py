"""Lists and dicts that tell when they change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jax.tree_util import DictKey, SequenceKey, register_pytree_with_keys
from typing_extensions import override

Changed = Callable[[], bool]
"""Called after each change, until it returns True."""


class ObservedList(list[Any]):
    """A list that tells when it changes, and changes the original as well.

    For JAX, `copy` and `pickle` it is a list. JAX sees the items of the original, which
    the user may hold.
    """

    def __init__(self, original: list[Any]) -> None:
        super().__init__(original)
        self.original = original
        self.observers: list[Changed] = []

    def write_through(self) -> None:
        self.original[:] = self

    @override
    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(self),)


class ObservedDict(dict[Any, Any]):
    """A dict that tells when it changes, and changes the original as well."""

    def __init__(self, original: dict[Any, Any]) -> None:
        super().__init__(original)
        self.original = original
        self.observers: list[Changed] = []

    def write_through(self) -> None:
        self.original.clear()
        self.original.update(self)

    @override
    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self),)


def observe(value: Any, changed: Changed) -> Any:
    """Returns a list or dict, also nested ones in it, that calls `changed`.

    Other values are returned as they are.
    """
    if type(value) is list:
        value = ObservedList(value)
    elif type(value) is dict:
        value = ObservedDict(value)
    if isinstance(value, ObservedList):
        for index, item in enumerate(value):
            list.__setitem__(value, index, observe(item, changed))
    elif isinstance(value, ObservedDict):
        for key, item in value.items():
            dict.__setitem__(value, key, observe(item, changed))
    else:
        return value
    if changed not in value.observers:
        value.observers.append(changed)
    return value


def _observed(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        self.write_through()
        self.observers = [changed for changed in self.observers if not changed()]
        return result

    return call


_ITEMS = ("__setitem__", "__delitem__", "clear", "pop")
for _name in (
    *("append", "extend", "insert", "remove", "reverse", "sort"),
    *("__iadd__", "__imul__", *_ITEMS),
):
    setattr(ObservedList, _name, _observed(getattr(list, _name)))
for _name in ("popitem", "setdefault", "update", "__ior__", *_ITEMS):
    setattr(ObservedDict, _name, _observed(getattr(dict, _name)))


def _flatten_list(items: ObservedList) -> Any:
    return [(SequenceKey(i), item) for i, item in enumerate(items.original)], None


def _flatten_dict(items: ObservedDict) -> Any:
    keys = sorted(items.original)
    return [(DictKey(key), items.original[key]) for key in keys], tuple(keys)


def _make_list(_: None, items: Any) -> Any:
    return list(items)


def _make_dict(keys: Any, items: Any) -> Any:
    return dict(zip(keys, items, strict=True))


register_pytree_with_keys(ObservedList, _flatten_list, _make_list)
register_pytree_with_keys(ObservedDict, _flatten_dict, _make_dict)
