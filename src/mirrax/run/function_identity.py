"""When a function that is defined anew, or has changed, is still the same.

A function that Python drives gives functions to `run`, again and again. What such a
function computes depends on its code and on what it reaches: what it closes over, its
defaults, the globals, attributes and functions that it names. A program made for it can
be used as long as none of these has changed.
"""

from __future__ import annotations

import collections
import enum
import functools
import hashlib
import os
import sys
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import numpy as np

from mirrax import trees
from mirrax.run import user_frames
from mirrax.trees import IdentityKey

_MAX_VALUES = 10_000
_STANDARD_LIBRARY = f"{os.path.dirname(os.__file__)}{os.sep}"
_EMPTY = types.CellType()
_PLAIN = (int, bool, str, bytes, type(None), range, type(Ellipsis))
_SEQUENCES = (list, tuple, collections.deque)
_NAMESPACES = (types.SimpleNamespace, types.ModuleType)
# What libraries call on behalf of the user's code.
_ALWAYS_NAMED = frozenset({"call", "forward"})
_CONSTRUCTORS = frozenset({"__init__", "__new__"})
_NEVER_CALLED = frozenset({"__repr__", "__str__", "__del__"})
# What reads attributes by names that are no part of the code.
_DYNAMIC = frozenset({"getattr", "vars", "__dict__", "eval", "exec", "globals"})


def identity(fn: Callable[..., Any]) -> Hashable | None:
    """Returns a key that changes when what `fn` computes may change.

    None if it reaches so much that looking at it takes longer than a new trace.
    """
    reach = _Reach()
    try:
        reach.add(fn)
        reach.add_attributes()
    except (_TooMuch, RecursionError):
        return None
    return tuple(reach.tokens)


class _TooMuch(Exception):  # noqa: N818 - a signal
    """A function reaches more than can be looked at."""


class _Reach:
    """What a function reaches, as a list of hashable tokens in a fixed order."""

    def __init__(self) -> None:
        self.tokens: list[Hashable] = []
        self._names: set[str] = set(_ALWAYS_NAMED)
        self._holders: list[Any] = []
        self._added: list[set[str]] = []
        self._seen: dict[int, tuple[int, Any]] = {}

    def add(self, value: Any) -> None:
        """Adds tokens for a value, and for what it holds or calls."""
        kind = type(value)
        if kind in _PLAIN:
            self._put((kind, value))
        elif kind is float or kind is complex:
            # Zero and minus zero are equal.
            self._put((kind, repr(value)))
        elif id(value) in self._seen:
            self._put(("seen", self._seen[id(value)][0]))
        else:
            self._seen[id(value)] = len(self._seen), value
            self._add_new(value)

    def add_attributes(self) -> None:
        """Adds the attributes of objects, as far as some code names them."""
        number = 0
        while number < len(self._holders):
            added = self._added[number]
            names = self._names - added
            if names:
                is_all = not _DYNAMIC.isdisjoint(names)
                holder = self._holders[number]
                for name, value in _attributes(holder):
                    is_implied = not added and _is_implied(name, value, holder)
                    if name in names or is_implied or is_all:
                        self._put(name)
                        self.add(value)
                added |= names
                # New code may name attributes of the objects before.
                number = 0
            else:
                number += 1

    def _put(self, token: Hashable) -> None:
        self.tokens.append(token)
        if len(self.tokens) > _MAX_VALUES:
            raise _TooMuch

    def _add_new(self, value: Any) -> None:
        match value:
            case types.FunctionType():
                self._add_function(value)
            case types.MethodType():
                self._add_all("method", [value.__func__, value.__self__])
            case functools.partial():
                named = value.keywords
                self._add_all(("partial", *named), [value.func, *value.args])
                self._add_all("", list(named.values()))
            case staticmethod() | classmethod():
                self.add(value.__func__)
            case property():
                self.add(value.fget)
            case np.ndarray() | np.generic():
                self._add_array(value)
            case enum.Enum() | jax.Array():
                self._put(IdentityKey(value))
            case _ if trees.is_leaf(value):
                self._put(IdentityKey(value))
            case dict():
                self._add_all((type(value), len(value)), [*value, *value.values()])
            case set() | frozenset():
                self._add_all(type(value), sorted(value, key=repr))
            case _ if isinstance(value, _SEQUENCES):
                self._add_all((type(value), len(value)), list(value))
            case _:
                self._add_object(value)

    def _add_all(self, token: Hashable, values: list[Any]) -> None:
        self._put(token)
        for value in values:
            self.add(value)

    def _add_function(self, fn: types.FunctionType) -> None:
        if not _is_users_file(fn.__code__.co_filename):
            self._put(IdentityKey(fn))
            return
        self._put(fn.__code__)
        for cell in fn.__closure__ or ():
            self.add(None if cell == _EMPTY else cell.cell_contents)
        self.add(fn.__defaults__)
        self.add(fn.__kwdefaults__)
        names = _names(fn.__code__)
        self._names.update(names)
        for name in names:
            if name in fn.__globals__:
                self.add(fn.__globals__[name])

    def _add_array(self, array: Any) -> None:
        if array.dtype.hasobject:
            self._add_all((array.shape, array.dtype), array.reshape(-1).tolist())
            return
        digest = hashlib.blake2b(array.tobytes(), digest_size=16).digest()
        self._put((type(array), array.shape, array.dtype, digest))

    def _add_object(self, value: Any) -> None:
        wrapped = getattr(value, "__wrapped__", None)
        if callable(wrapped):
            # A `function`, or what `jax.jit` returns.
            self._add_all(type(value).__qualname__, [wrapped])
            return
        self._put(IdentityKey(value))
        if isinstance(value, types.ModuleType):
            is_users = _is_users_file(getattr(value, "__file__", None))
        else:
            kind = value if isinstance(value, type) else type(value)
            is_users = isinstance(value, _NAMESPACES) or is_users_type(kind)
        if is_users:
            self._holders.append(value)
            self._added.append(set())


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the attributes of an object and of the user's classes that it is of."""
    yield from list(getattr(value, "__dict__", {}).items())
    kind = value if isinstance(value, type) else type(value)
    for base in kind.__mro__:
        if base is value or not is_users_type(base):
            continue
        for name, attribute in list(vars(base).items()):
            if isinstance(attribute, types.MemberDescriptorType):
                yield name, getattr(value, name, None)
            else:
                yield name, attribute


def _is_implied(name: str, value: Any, holder: Any) -> bool:
    """Returns whether code can call an attribute without naming it, as `a + b` does."""
    if not name.startswith("__") or not isinstance(value, types.FunctionType):
        return False
    if name in _CONSTRUCTORS:
        return isinstance(holder, type)
    return name not in _NEVER_CALLED


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Returns the names of globals and attributes in some code."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(dict.fromkeys(_names(constant)))
    return tuple(names)


@functools.lru_cache(maxsize=4096)
def _is_users_file(file: str | None) -> bool:
    if file is None:
        return False
    return user_frames.is_users(file) and not file.startswith(_STANDARD_LIBRARY)


def is_users_type(kind: type) -> bool:
    """Returns whether a class belongs to the user's program, and to no library."""
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__":
        return True
    return _is_users_file(getattr(module, "__file__", None))
