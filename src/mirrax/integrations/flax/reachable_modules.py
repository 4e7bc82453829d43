"""Finds the modules that a function captures."""

from __future__ import annotations

import collections
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mirrax.run.function_identity import is_users_type

_MAX_DEPTH = 8
# Longer lists, and longer searches, are data.
_MAX_ITEMS = 1000
_MAX_OBJECTS = 10_000
_PLAIN = {int, float, complex, bool, str, bytes, type(None), np.ndarray}
_CONTAINERS = (list, tuple, set, frozenset)


def find_objects(fn: Callable[..., Any], kinds: tuple[type, ...]) -> list[Any]:
    """Returns objects of these types in the closure, globals and `self` of `fn`.

    Searches functions that `fn` names, lists, dictionaries, and attributes of objects
    of user-defined classes.
    """
    found: dict[int, Any] = {}
    # Breadth-first. Seen objects are kept alive, so that ids stay unique.
    seen: dict[int, Any] = {}
    waiting: collections.deque[tuple[Any, int]] = collections.deque([(fn, _MAX_DEPTH)])
    while waiting and len(seen) < _MAX_OBJECTS:
        value, rest = waiting.popleft()
        if isinstance(value, kinds):
            found[id(value)] = value
        elif rest and id(value) not in seen:
            seen[id(value)] = value
            reached = (v for v in _reached(value) if type(v) not in _PLAIN)
            waiting.extend((v, rest - 1) for v in reached)
    return list(found.values())


def _reached(value: Any) -> Iterator[Any]:
    """Yields the objects that a value refers to."""
    if isinstance(value, dict):
        yield from list(value.values()) if len(value) <= _MAX_ITEMS else ()
    elif isinstance(value, _CONTAINERS):
        yield from list(value) if len(value) <= _MAX_ITEMS else ()
    elif callable(value):
        yield from _named(_unwrapped(value))
    elif is_users_type(type(value)):
        yield from list(getattr(value, "__dict__", {}).values())


def _unwrapped(value: Any) -> Any:
    try:
        return inspect.unwrap(value)
    except Exception:
        # A user-defined object with an unusual `__getattr__`.
        return value


def _named(value: Any) -> Iterator[Any]:
    """Yields the objects that a callable refers to."""
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, types.MethodType):
        yield value.__self__
        yield from getattr(value.__self__, "__dict__", {}).values()
        yield value.__func__
    elif isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            if cell != _EMPTY:
                yield cell.cell_contents
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        for name in _names(value.__code__):
            if name in value.__globals__:
                yield value.__globals__[name]
    elif not isinstance(value, type) and is_users_type(type(value)):
        yield from list(getattr(value, "__dict__", {}).values())
        yield type(value).__call__


_EMPTY = types.CellType()


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
