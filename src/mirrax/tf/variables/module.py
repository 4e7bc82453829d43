"""`tf.Module`: an object with variables."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

import mirrax
from mirrax.tf.variables import name_scopes


class Module:
    """Collects the variables in its attributes, including those of submodules."""

    # Not set in `__init__`: subclasses may set attributes before they call it.
    _observers: Sequence[Callable[[], bool]] = ()

    def __init__(self, name: str | None = None) -> None:
        self._name = _name_of(type(self)) if name is None else name
        if not self._name.isidentifier():
            raise ValueError(
                f"{self._name!r} is not a valid module name: it must be a Python "
                f"identifier. Received: {type(self).__name__}(name={name!r}). Pass a "
                "`name` of letters, digits and '_'."
            )
        with name_scopes.name_scope(self._name) as prefix:
            self._name_scope = name_scopes.name_scope(prefix)

    @property
    def name(self) -> str:
        return self._name

    @property
    def variables(self) -> tuple[Any, ...]:
        """All variables without duplicates, sorted by attribute name."""
        return tuple(v for v in _walk(self) if isinstance(v, mirrax.Variable))

    def checkpoint_contents(self) -> dict[str, Any]:
        """Returns what a checkpoint saves: the attributes that contain variables."""
        return {name: value for name, value in vars(self).items() if is_saved(value)}

    def when_contents_change(self, then: Callable[[], bool]) -> None:
        """Calls `then` after each change of an attribute, until it returns True."""
        object.__setattr__(self, "_observers", [*self._observers, then])

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if self._observers:
            waiting = [then for then in self._observers if not then()]
            object.__setattr__(self, "_observers", waiting)

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        return tuple(v for v in self.variables if v.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Any, ...]:
        return tuple(v for v in self.variables if not v.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        return tuple(m for m in _walk(self) if isinstance(m, Module))

    @property
    def name_scope(self) -> name_scopes.name_scope:
        """The scope of its name, inside of the one where it was created."""
        return self._name_scope

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return scoped


def _name_of(kind: type) -> str:
    """Returns the name of a class in lower case: of `DenseLayer`, "dense_layer"."""
    return re.sub(
        r"(?<=[a-z0-9])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", kind.__name__
    ).lower()


def _walk(module: Module, seen: set[int] | None = None) -> Iterator[Any]:
    """Yields the variables and submodules of a module, breadth first."""
    seen = {id(module)} if seen is None else seen
    inner = []
    for _, value in sorted(vars(module).items()):
        for leaf in jax.tree.leaves(value, is_leaf=_is_leaf):
            if not _is_leaf(leaf) or id(leaf) in seen:
                continue
            seen.add(id(leaf))
            yield leaf
            if isinstance(leaf, Module):
                inner.append(leaf)
    for leaf in inner:
        yield from _walk(leaf, seen)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, mirrax.Variable | Module)


def is_saved(value: Any) -> bool:
    """Returns whether a checkpoint saves such an attribute: one with variables."""
    # An empty list may be filled after a restore.
    is_empty = isinstance(value, list | dict) and not value
    is_stateful = mirrax.train.is_stateful
    return is_empty or any(
        map(is_stateful, jax.tree.leaves(value, is_leaf=is_stateful))
    )
