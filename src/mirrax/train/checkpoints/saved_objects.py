"""The objects in a checkpoint: walks through them, gives names to their values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from mirrax.errors import CheckpointObjectError
from mirrax.train.checkpoints.saved_values import (
    Entry,
    HasPosition,
    Rebuild,
    entry_of_foreign,
    entry_of_iterator,
    entry_of_leaf,
    entry_of_variable,
)
from mirrax.values.array_like import is_array
from mirrax.variables import foreign_libraries
from mirrax.variables.variable import Variable

COUNTER = "save_counter"
"""The name of the checkpoint number in a checkpoint."""

_PLAIN_KEYS = (jax.tree_util.SequenceKey, jax.tree_util.DictKey)

Replace = Callable[[Any], None]
SetLeaf = Callable[[Any], Rebuild]


@runtime_checkable
class HasContents(Protocol):
    """An object that defines its own contents."""

    def checkpoint_contents(self) -> Mapping[str, Any]:
        """Returns the objects to save, by name."""


@runtime_checkable
class HasLateContents(HasContents, Protocol):
    """An object whose contents may appear after a restore."""

    def when_contents_change(self, then: Callable[[], bool]) -> None:
        """Calls `then` after each change of the contents, until it returns True."""


_STATEFUL = (Variable, HasContents, HasPosition)


def is_stateful(value: Any) -> bool:
    """Returns whether a checkpoint restores `value` in place, not as a pytree.

    >>> import mirrax
    >>> is_stateful(mirrax.Variable(1.0)), is_stateful([1.0])
    (True, False)
    """
    return (
        isinstance(value, _STATEFUL)
        or foreign_libraries.saved_arrays_of(value) is not None
    )


def all_entries(objects: dict[str, Any]) -> Iterator[tuple[str, Entry]]:
    """Yields the entries of all objects in a checkpoint.

    Objects that cannot be changed are replaced in `objects`.
    """
    foreign_libraries.connected()
    for name, value in list(objects.items()):
        replace = functools.partial(objects.__setitem__, name)
        for inner, leaf, set_leaf in _walk(name, value, replace):
            yield from _entries_of(inner, leaf, set_leaf)


def find_objects(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the objects in `value` that are restored in place, with their names."""
    for inner, leaf, _ in _walk(name, value, lambda _: None):
        if is_stateful(leaf):
            yield inner, leaf


def has_state(value: Any) -> bool:
    """Returns whether a pytree has a leaf that is restored in place."""
    return any(map(is_stateful, jax.tree.leaves(value, is_leaf=is_stateful)))


def find_aliases(objects: Mapping[str, Any]) -> dict[str, str]:
    """Returns other names of saved values: alias -> name."""
    if not foreign_libraries.connected():
        return {}
    return {
        _join(name, alias): _join(name, inner)
        for key, value in objects.items()
        for name, held in find_objects(key, value)
        for alias, inner in foreign_libraries.aliases_of(held).items()
    }


def require_savable(name: str, value: Any) -> None:
    """Raises if a checkpoint would leave out an object that the user gave to it."""
    foreign_libraries.connected()
    if _contains_itself(value):
        raise _object_error(name, "a list or dict that contains itself")
    pairs = jax.tree_util.tree_flatten_with_path(value, is_leaf=is_stateful)[0]
    for path, leaf in pairs:
        # The classes of other pytrees decide themselves what is in them, such as
        # activation functions.
        is_given = all(isinstance(key, _PLAIN_KEYS) for key in path)
        is_function = bool(path) and callable(leaf)
        is_known = _is_plain(leaf) or is_stateful(leaf)
        if is_given and (_is_not_numeric(leaf) or not (is_function or is_known)):
            raise _object_error(_join(name, _name_of(path)), f"a {type(leaf).__name__}")


def group_of(name: str) -> str:
    """Returns the name of the object that a value belongs to."""
    return name.rpartition("/")[0]


def _walk(
    name: str, value: Any, replace: Replace, holders: tuple[int, ...] = ()
) -> Iterator[tuple[str, Any, SetLeaf]]:
    """Yields name, leaf, and a function that sets it, of all leaves in `value`.

    Follows objects into their contents, but not again into those that hold them.

    Args:
        replace: Called with a new object if `value` cannot be changed in place.
        holders: The ids of the objects on the way to `value`.
    """
    pairs, structure = jax.tree_util.tree_flatten_with_path(value, is_leaf=is_stateful)
    leaves = [leaf for _, leaf in pairs]

    def rebuild() -> None:
        replace(jax.tree.unflatten(structure, leaves))

    def set_leaf(index: int, leaf: Any) -> Rebuild:
        leaves[index] = leaf
        return rebuild

    for index, (path, leaf) in enumerate(pairs):
        if id(leaf) in holders:
            continue
        own = _join(name, _name_of(path))
        yield own, leaf, functools.partial(set_leaf, index)
        # Most leaves are variables, and Python takes long to check a protocol.
        if not isinstance(leaf, Variable) and isinstance(leaf, HasContents):
            for inner, held in leaf.checkpoint_contents().items():
                set_held = functools.partial(setattr, leaf, inner)
                yield from _walk(
                    _join(own, inner), held, set_held, (*holders, id(leaf))
                )


def _entries_of(name: str, leaf: Any, set_leaf: SetLeaf) -> Iterator[tuple[str, Entry]]:
    if isinstance(leaf, Variable):
        yield name, entry_of_variable(leaf)
    elif (kept := foreign_libraries.saved_arrays_of(leaf)) is not None:
        for inner, held in kept.items():
            yield _join(name, inner), entry_of_foreign(held)
    elif isinstance(leaf, HasPosition):
        yield name, entry_of_iterator(leaf)
    elif _is_plain(leaf):
        yield name, entry_of_leaf(leaf, set_leaf)


def _object_error(name: str, what: str) -> CheckpointObjectError:
    return CheckpointObjectError(
        "A checkpoint holds variables, models, optimizers, iterators, generators, "
        f"arrays, numbers and text. Received: '{name}', {what}, which it could not "
        "restore. Leave it out; of a dataset, save `iter(dataset)`."
    )


def _contains_itself(value: Any, holders: tuple[int, ...] = ()) -> bool:
    # JAX neither finds this nor is usable after it has tried.
    if not isinstance(value, list | tuple | dict):
        return False
    items = value.values() if isinstance(value, dict) else value
    inside = (*holders, id(value))
    return id(value) in holders or any(_contains_itself(x, inside) for x in items)


def _name_of(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _is_not_numeric(leaf: Any) -> bool:
    """Returns whether `leaf` is an array of text, dates, records, objects or holes."""
    if not isinstance(leaf, np.ndarray):
        return False
    if isinstance(leaf, np.ma.MaskedArray):
        return True
    return leaf.dtype.kind in "OSUMm" or leaf.dtype.names is not None


def _is_plain(leaf: Any) -> bool:
    return is_array(leaf) or isinstance(leaf, bool | int | float | str)
