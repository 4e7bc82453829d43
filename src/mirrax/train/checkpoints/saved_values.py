"""The values in a checkpoint: how each is read, compared with a saved one, restored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from mirrax.collectives import worker_exchange
from mirrax.train.checkpoints import host_transfer
from mirrax.values.array_like import is_array, is_prng_key, on_host
from mirrax.variables.foreign_libraries import SavedArray
from mirrax.variables.variable import Variable


@runtime_checkable
class HasPosition(Protocol):
    """An iterator that can be saved."""

    def save_state(self) -> Any:
        """Returns the position, as a JSON value."""

    def restore_state(self, state: Any) -> None:
        """Restores a position."""


Rebuild = Callable[[], None]
"""Replaces a pytree by one with the leaves that were set."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One named value of a checkpoint.

    Args:
        get: Returns an array on the host, perhaps the object's own, or a JSON value.
        set: Restores what `get` returned. May return a function to call when all values
            are set.
        difference: Returns why a saved value does not fit; None if it does.
        is_position: Whether it is the position of an iterator.
    """

    get: Callable[[], Any]
    set: Callable[[Any], Rebuild | None]
    difference: Callable[[Any], str | None]
    is_position: bool = False


def entry_of_variable(variable: Variable) -> Entry:
    """Returns the value of a variable of Mirrax."""

    def kind() -> Any:
        # Random keys are not NumPy arrays.
        return variable.value if is_prng_key(variable) else variable

    def get() -> Any:
        held = kind()
        return variable.host_view() if held is variable else on_host(held)

    def restore(value: Any) -> None:
        host_transfer.assign(variable, worker_exchange.from_host(kind(), value))

    return Entry(get, restore, lambda value: _difference(kind(), value))


def entry_of_foreign(kept: SavedArray) -> Entry:
    """Returns an array of another library's object."""
    return Entry(
        lambda: host_transfer.to_host(kept.get()),
        lambda value: kept.set(host_transfer.restore_like(kept.get(), value)),
        lambda value: _difference(kept.get(), value),
    )


def entry_of_iterator(iterator: HasPosition) -> Entry:
    """Returns the position of a dataset iterator."""

    def difference(value: Any) -> str | None:
        if isinstance(value, dict | list):
            return None
        return f"is an iterator, but {_describe(value)} was saved"

    return Entry(iterator.save_state, iterator.restore_state, difference, True)


def entry_of_leaf(leaf: Any, set_leaf: Callable[[Any], Rebuild]) -> Entry:
    """Returns an array or a number in a pytree, which is replaced."""

    def difference(value: Any) -> str | None:
        if is_array(leaf):
            return _difference(leaf, value)
        if _can_become(value, leaf):
            return None
        return f"is {leaf!r}, but {_describe(value)} was saved"

    return Entry(
        lambda: host_transfer.to_host(leaf) if is_array(leaf) else leaf,
        lambda value: set_leaf(host_transfer.restore_like(leaf, value)),
        difference,
    )


def _difference(own: Any, value: Any) -> str | None:
    """Returns why a saved value does not fit an array; None if it does."""
    if not isinstance(value, np.ndarray):
        return f"is an array, but {_describe(value)} was saved"
    kind = jax.random.key_data(own) if is_prng_key(own) else own
    shape, dtype = tuple(kind.shape), np.dtype(kind.dtype)
    if value.shape != shape:
        return f"has shape {shape}, but shape {value.shape} was saved"
    if value.dtype != dtype:
        return f"has dtype {dtype}, but {value.dtype} was saved"
    return None


def _can_become(value: Any, old: Any) -> bool:
    if isinstance(old, str) or not isinstance(value, int | float):
        return isinstance(old, str) and isinstance(value, str)
    return isinstance(old, float) or isinstance(value, int) or value.is_integer()


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "an array"
    return "a position" if isinstance(value, dict | list) else repr(value)
