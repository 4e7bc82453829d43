"""The values in a checkpoint: how each is read, compared with a saved one, restored."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from typing_extensions import override

from mirrax.collectives import worker_exchange
from mirrax.train.checkpoints import host_transfer
from mirrax.values.array_like import is_array, is_prng_key, on_host
from mirrax.variables import foreign_libraries
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


class Entry(abc.ABC):
    """One named value of a checkpoint."""

    @abc.abstractmethod
    def get(self) -> Any:
        """Returns an array on the host, perhaps the object's own, or a JSON value."""

    @abc.abstractmethod
    def set(self, value: Any) -> Rebuild | None:
        """Restores what `get` returned.

        May return a function to call when all values are set.
        """

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
        kind = jax.random.key_data(self.kind) if is_prng_key(self.kind) else self.kind
        shape, dtype = tuple(kind.shape), np.dtype(kind.dtype)
        if value.shape != shape:
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
        kind = self.kind
        # Random keys are not NumPy arrays.
        return kind.host_view() if kind is self._variable else on_host(kind)

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

    def __init__(self, leaf: Any, set_leaf: Callable[[Any], Rebuild]) -> None:
        self._leaf = leaf
        self._set_leaf = set_leaf

    @property
    @override
    def kind(self) -> Any:
        return self._leaf

    @override
    def get(self) -> Any:
        return host_transfer.to_host(self._leaf) if is_array(self._leaf) else self._leaf

    @override
    def set(self, value: Any) -> Rebuild:
        return self._set_leaf(host_transfer.restore_like(self._leaf, value))

    @override
    def difference(self, value: Any) -> str | None:
        if is_array(self._leaf):
            return super().difference(value)
        if _can_become(value, self._leaf):
            return None
        return f"is {self._leaf!r}, but {_describe(value)} was saved"


def _can_become(value: Any, old: Any) -> bool:
    """Returns whether a saved number or text can replace another one."""
    if isinstance(old, str) or not isinstance(value, int | float):
        return isinstance(old, str) and isinstance(value, str)
    return isinstance(old, float) or isinstance(value, int) or value.is_integer()


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "an array"
    return "a position" if isinstance(value, dict | list) else repr(value)
