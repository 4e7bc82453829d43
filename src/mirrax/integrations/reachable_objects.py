"""Finds the objects of other libraries that a function captures, such as modules."""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from mirrax.run.function_identity import captured_values, is_users_type
from mirrax.trees import reachable
from mirrax.variables.foreign_libraries import counters

# Longer lists are data.
_MAX_ITEMS = 1000
_PLAIN = {int, float, complex, bool, str, bytes, type(None), np.ndarray}
_CONTAINERS = (list, tuple, set, frozenset)


class CapturedKeys:
    """Cache keys for objects that functions capture, until one may have changed.

    Args:
        key_of: Returns the key of several objects.
    """

    def __init__(
        self, kinds: tuple[type, ...], key_of: Callable[[list[Any]], Hashable]
    ) -> None:
        self._kinds = kinds
        self._key_of = key_of
        self._known = weakref.WeakKeyDictionary[Any, tuple[int, Hashable]]()

    def of(self, fn: Callable[..., Any], leaves: Sequence[Any]) -> Hashable:
        """Returns the key of a function, with objects that it captures or is given."""
        known = self._known.get(fn)
        if known is None or known[0] != counters.fingerprints:
            captured = find_objects(fn, self._kinds)
            known = counters.fingerprints, self._key_of(captured)
            self._known[fn] = known
        given = [leaf for leaf in leaves if isinstance(leaf, self._kinds)]
        return (known[1], self._key_of(given)) if given else known[1]


def find_objects(fn: Callable[..., Any], kinds: tuple[type, ...]) -> list[Any]:
    """Returns objects of these types in the closure, globals and `self` of `fn`.

    Searches functions that `fn` names, lists, dictionaries, and attributes of objects
    of user-defined classes.
    """

    def inside(value: Any) -> Iterator[tuple[str, Any]]:
        inner = () if isinstance(value, kinds) else _reached(value)
        return (("", each) for each in inner if type(each) not in _PLAIN)

    return [each for _, each in reachable(fn, inside) if isinstance(each, kinds)]


def _reached(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from list(value.values()) if len(value) <= _MAX_ITEMS else ()
    elif isinstance(value, _CONTAINERS):
        yield from list(value) if len(value) <= _MAX_ITEMS else ()
    elif (wrapped := _unwrapped(value)) is not value:
        yield wrapped
    elif callable(value):
        yield from _named(value)
    elif is_users_type(type(value)):
        yield from list(getattr(value, "__dict__", {}).values())


def _unwrapped(value: Any) -> Any:
    try:
        return inspect.unwrap(value)
    except Exception:
        # A user-defined object with an unusual `__getattr__`.
        return value


def _named(value: Any) -> Iterator[Any]:
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, types.MethodType):
        yield value.__self__
        yield from getattr(value.__self__, "__dict__", {}).values()
        yield value.__func__
    elif isinstance(value, types.FunctionType):
        yield from captured_values(value)
    elif not isinstance(value, type) and is_users_type(type(value)):
        yield from list(getattr(value, "__dict__", {}).values())
        yield type(value).__call__
