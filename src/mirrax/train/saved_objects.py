"""The values of objects in a checkpoint: their names, getters and setters."""

from __future__ import annotations

import abc
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from typing_extensions import override

from mirrax.collectives import worker_exchange
from mirrax.errors import CheckpointMismatchError
from mirrax.train import host_transfer
from mirrax.values.array_like import is_prng_key, on_host
from mirrax.variables import foreign_libraries
from mirrax.variables.variable import Variable


@runtime_checkable
class HasContents(Protocol):
    """An object that defines its own contents."""

    def checkpoint_contents(self) -> Mapping[str, Any]:
        """Returns the objects to save, by name."""


@runtime_checkable
class HasPosition(Protocol):
    """An iterator that can be saved."""

    def save_state(self) -> Any:
        """Returns the position, as a JSON value."""

    def restore_state(self, state: Any) -> None:
        """Restores a position."""


class Entry(abc.ABC):
    """One named value of a checkpoint."""

    @abc.abstractmethod
    def get(self) -> Any:
        """Returns an array on the host, or a JSON value."""

    @abc.abstractmethod
    def set(self, value: Any) -> None:
        """Restores what `get` returned."""

    def difference(self, value: Any) -> str | None:
        """Returns why a saved `value` does not fit; None if it does."""
        return None


class ArrayEntry(Entry):
    """A value with a shape and a dtype."""

    @property
    @abc.abstractmethod
    def kind(self) -> Any:
        """An object with the shape and the dtype."""

    @override
    def difference(self, value: Any) -> str | None:
        if not isinstance(value, np.ndarray):
            return f"is an array, but {_describe(value)} was saved"
        shape, dtype = self.kind.shape, host_transfer.saved_dtype(self.kind)
        if value.shape != host_transfer.saved_shape(self.kind):
            return f"has shape {shape}, but shape {value.shape} was saved"
        if value.dtype != dtype:
            return f"has dtype {dtype}, but {value.dtype} was saved"
        return None


class VariableEntry(ArrayEntry):
    """A variable of Mirrax."""

    def __init__(self, variable: Variable) -> None:
        self._variable = variable

    @property
    @override
    def kind(self) -> Any:
        return self._variable.value if is_prng_key(self._variable) else self._variable

    @override
    def get(self) -> Any:
        # Random keys are not NumPy arrays.
        is_plain = self.kind is self._variable
        return self._variable.numpy() if is_plain else on_host(self.kind)

    @override
    def set(self, value: Any) -> None:
        host_transfer.assign(
            self._variable, worker_exchange.from_host(self.kind, value)
        )


class ForeignEntry(ArrayEntry):
    """An array of another library's object."""

    def __init__(self, kept: foreign_libraries.SavedArray) -> None:
        self._kept = kept

    @property
    @override
    def kind(self) -> Any:
        return self._kept.get()

    @override
    def get(self) -> Any:
        return host_transfer.to_host(self._kept.get())

    @override
    def set(self, value: Any) -> None:
        self._kept.set(host_transfer.restore_like(self._kept.get(), value))


class PositionEntry(Entry):
    """A dataset iterator."""

    def __init__(self, iterator: HasPosition) -> None:
        self._iterator = iterator

    @override
    def get(self) -> Any:
        return self._iterator.save_state()

    @override
    def set(self, value: Any) -> None:
        self._iterator.restore_state(value)

    @override
    def difference(self, value: Any) -> str | None:
        if isinstance(value, dict | list):
            return None
        return f"is an iterator, but {_describe(value)} was saved"


class LeafEntry(ArrayEntry):
    """An array or a number in a pytree, which is replaced."""

    def __init__(self, leaf: Any, replace: Callable[[Any], None]) -> None:
        self._leaf = leaf
        self._replace = replace

    @property
    @override
    def kind(self) -> Any:
        return self._leaf

    @override
    def get(self) -> Any:
        return (
            host_transfer.to_host(self._leaf)
            if host_transfer.is_array(self._leaf)
            else self._leaf
        )

    @override
    def set(self, value: Any) -> None:
        self._replace(host_transfer.restore_like(self._leaf, value))

    @override
    def difference(self, value: Any) -> str | None:
        if host_transfer.is_array(self._leaf):
            return super().difference(value)
        if _can_become(value, self._leaf):
            return None
        return f"is {self._leaf!r}, but {_describe(value)} was saved"


class Structure:
    """A saved pytree.

    Args:
        value: The tree.
        replace: Called with a new tree when a leaf was replaced.
    """

    def __init__(self, value: Any, replace: Callable[[Any], None]) -> None:
        pairs, self._structure = jax.tree_util.tree_flatten_with_path(
            value, is_leaf=_is_stateful
        )
        self._leaves = [leaf for _, leaf in pairs]
        self._names = [_name_of(path) for path, _ in pairs]
        self._replace = replace

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Yields the name in the tree, and the entry, of each leaf."""
        for index, (name, leaf) in enumerate(
            zip(self._names, self._leaves, strict=True)
        ):
            if _is_stateful(leaf):
                yield from _stateful_entries(name, leaf)
            elif host_transfer.is_array(leaf) or isinstance(
                leaf, bool | int | float | str
            ):
                yield name, LeafEntry(leaf, functools.partial(self._set_leaf, index))

    def _set_leaf(self, index: int, value: Any) -> None:
        self._leaves[index] = value
        self._replace(jax.tree.unflatten(self._structure, self._leaves))


def find_entries(
    name: str, value: Any, replace: Callable[[Any], None]
) -> Iterator[tuple[str, Entry]]:
    """Yields the entries of `value`, with names that begin with `name`.

    Args:
        name: The name of `value`.
        value: Any object.
        replace: Called with a new object if `value` cannot be changed in place.
    """
    for inner, entry in Structure(value, replace).entries():
        yield "/".join(part for part in (name, inner) if part), entry


def find_objects(value: Any) -> Iterator[Any]:
    """Yields the models, optimizers, ... in `value` that are restored in place."""
    for leaf in jax.tree.leaves(value, is_leaf=_is_stateful):
        if isinstance(leaf, HasContents):
            yield from find_objects(dict(leaf.checkpoint_contents()))
        elif _is_stateful(leaf):
            yield leaf


def move_iterators(
    entries: Mapping[str, Entry], values: Mapping[str, Any]
) -> Callable[[], None]:
    """Restores the positions of all iterators or none; returns an undo function."""
    before: list[tuple[Entry, Any]] = []

    def undo() -> None:
        for entry, position in before:
            entry.set(position)

    try:
        for name, entry in entries.items():
            if isinstance(entry, PositionEntry) and name in values:
                before.append((entry, entry.get()))
                entry.set(values[name])
    except BaseException:
        undo()
        raise
    return undo


def set_values(entries: Mapping[str, Entry], values: dict[str, Any]) -> None:
    """Restores objects except iterators, and removes used entries from `values`."""
    for name, entry in entries.items():
        if name in values:
            value = values.pop(name)
            if not isinstance(entry, PositionEntry):
                entry.set(value)


def _can_become(value: Any, old: Any) -> bool:
    """Returns whether a saved number or text can replace another one."""
    if isinstance(old, str) or not isinstance(value, int | float):
        return isinstance(old, str) and isinstance(value, str)
    return isinstance(old, float) or float(value).is_integer()


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "an array"
    return "a position" if isinstance(value, dict | list) else repr(value)


def _is_stateful(value: Any) -> bool:
    """Returns whether `value` is restored in place, not as a pytree."""
    return (
        isinstance(value, Variable | HasContents | HasPosition)
        or foreign_libraries.saved_arrays_of(value) is not None
    )


def _stateful_entries(name: str, value: Any) -> Iterator[tuple[str, Entry]]:
    def named(inner: str) -> str:
        return "/".join(part for part in (name, inner) if part)

    kept = foreign_libraries.saved_arrays_of(value)
    if isinstance(value, Variable):
        yield name, VariableEntry(value)
    elif kept is not None:
        for inner, held in kept.items():
            yield named(inner), ForeignEntry(held)
    elif isinstance(value, HasContents):
        for inner, held in value.checkpoint_contents().items():
            replace = functools.partial(setattr, value, inner)
            yield from find_entries(named(inner), held, replace)
    else:
        yield name, PositionEntry(value)


def _name_of(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


COUNTER = "save_counter"
"""The name of the checkpoint number in a checkpoint."""


def group_of(name: str) -> str:
    """Returns the name of the object that a value belongs to."""
    return name.rpartition("/")[0]


def require_match(
    path: pathlib.Path | None,
    entries: Mapping[str, Entry],
    values: Mapping[str, Any],
    partial: bool,
) -> None:
    """Raises one error that lists all mismatches between objects and saved values.

    Args:
        path: The checkpoint; None for one that was read before.
        entries: The entries of the objects, by name.
        values: The saved values.
        partial: Whether objects may have values that were not saved.
    """
    differences = []
    for name, entry in entries.items():
        if name in values:
            difference = entry.difference(values[name])
            if difference:
                differences.append(f"'{name}' {difference}")
        elif not partial and name != COUNTER:
            differences.append(f"'{name}' was not saved")
    if differences:
        where = "the checkpoint" if path is None else f"'{path}'"
        raise CheckpointMismatchError(
            f"Objects must be as they were when they were saved. Received: {where}, "
            "which differs in:\n  "
            + "\n  ".join(differences)
            + "\nNothing was restored. Make the objects as they were, or use "
            "`restore(path, partial=True)` for those that were not saved."
        )
