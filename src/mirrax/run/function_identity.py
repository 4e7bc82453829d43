"""Cache keys for the functions that an untraced function gives to `run`.

They are often redefined on each call. What such a function computes depends on its code
and on what it reaches: what it closes over, its defaults, the globals, attributes and
functions that it names. Its program can be reused while none of these has changed.
"""

from __future__ import annotations

import collections
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import numpy as np

from mirrax import trees
from mirrax.trees import IdentityKey
from mirrax.user_frames import is_user_code

_MAX_VALUES = 10_000
_EMPTY = types.CellType()
_PLAIN = (int, bool, str, bytes, type(None), range, type(Ellipsis))
_SEQUENCES = (list, tuple, collections.deque)
_NAMESPACES = (types.SimpleNamespace, types.ModuleType)
# What libraries call on behalf of the user's code.
_ALWAYS_NAMED = frozenset({"call", "forward"})
_CONSTRUCTORS = frozenset({"__init__", "__new__"})
_NEVER_CALLED = frozenset({"__repr__", "__str__", "__del__"})
# These read attributes whose names are not in the code.
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
        if not is_user_code(fn.__code__.co_filename):
            self._put(IdentityKey(fn))
            return
        self._put(fn.__code__)
        self._names.update(_names(fn.__code__))
        for value in captured_values(fn):
            self.add(value)

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
            is_users = _is_user_module(value)
        else:
            kind = value if isinstance(value, type) else type(value)
            is_users = isinstance(value, _NAMESPACES) or is_users_type(kind)
        if is_users:
            self._holders.append(value)
            self._added.append(set())


def captured_values(fn: types.FunctionType) -> Iterator[Any]:
    """Yields what a function closes over, its defaults, and the globals it names."""
    for cell in fn.__closure__ or ():
        yield None if cell == _EMPTY else cell.cell_contents
    yield fn.__defaults__
    yield fn.__kwdefaults__
    for name in _names(fn.__code__):
        if name in fn.__globals__:
            yield fn.__globals__[name]


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


def is_users_type(kind: type) -> bool:
    """Returns whether a class belongs to the user's program, and to no library."""
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__":
        return True
    return _is_user_module(module)


def _is_user_module(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and is_user_code(file)
