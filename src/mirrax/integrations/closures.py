"""Which objects a function reaches without being given them."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

_MAX_DEPTH = 4


def find_objects(fn: Callable[..., Any], kinds: tuple[type, ...]) -> list[Any]:
    """Returns the objects of these kinds that `fn` names: closures, globals, `self`.

    It looks into functions that `fn` calls by name, and into the attributes of the
    object whose method it is; not further.
    """
    found: dict[int, Any] = {}
    _search(fn, kinds, found, set(), _MAX_DEPTH)
    return list(found.values())


def _search(
    value: Any,
    kinds: tuple[type, ...],
    found: dict[int, Any],
    seen: set[int],
    rest: int,
) -> None:
    if isinstance(value, kinds):
        found[id(value)] = value
    elif rest and id(value) not in seen and callable(value):
        seen.add(id(value))
        for reached in _reached(value):
            _search(reached, kinds, found, seen, rest - 1)


def _reached(value: Any) -> Iterator[Any]:
    """Yields what a callable names."""
    value = inspect.unwrap(value)
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


_EMPTY = types.CellType()


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
