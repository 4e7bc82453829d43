"""Lists and dicts that tell when they change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jax.tree_util import DictKey, SequenceKey, register_pytree_with_keys
from typing_extensions import override

Changed = Callable[[], bool]
"""Called after each change, until it returns True."""


class _Observed:
    """A container that tells when it changes, and changes the original as well.

    For JAX, `copy` and `pickle` it is a list or dict. JAX sees the items of the
    original, which the user may hold.
    """

    plain: Callable[..., Any]

    def __init__(self, original: Any) -> None:
        super().__init__(original)  # type: ignore[call-arg]
        self.original = original
        self.observers: list[Changed] = []

    @override
    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.plain, (self.plain(self),)


class ObservedList(_Observed, list[Any]):
    """An observed list."""

    plain = list

    def write_through(self) -> None:
        self.original[:] = self


class ObservedDict(_Observed, dict[Any, Any]):
    """An observed dict."""

    plain = dict

    def write_through(self) -> None:
        self.original.clear()
        self.original.update(self)


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
