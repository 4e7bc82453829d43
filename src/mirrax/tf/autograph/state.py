"""The variables of a function that a branch or a loop changes, as tensors."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import mirrax
from mirrax.tf.tensors.tensor import tensor

_NUMBERS = (bool, int, float, complex)


@functools.cache
def _undefined_types() -> tuple[type, type]:
    from malt.operators.variables import Undefined, UndefinedReturnValue

    return Undefined, UndefinedReturnValue


def is_undefined(value: Any) -> bool:
    """Returns whether a variable has no value yet."""
    return isinstance(value, _undefined_types())


def is_missing_return(value: Any) -> bool:
    """Returns whether a function has not returned yet."""
    return isinstance(value, _undefined_types()[1])


@dataclasses.dataclass(frozen=True)
class Value:
    """The value of a variable, taken apart.

    Args:
        name: The name of the variable.
        leaves: Its tensors, and other objects.
        structure: How they are nested.
    """

    name: str
    leaves: Sequence[Any]
    structure: Any

    @classmethod
    def of(cls, name: str, value: Any) -> Value:
        leaves, structure = jax.tree.flatten(value, is_leaf=_is_leaf)
        return cls(name, leaves, structure)

    @property
    def is_undefined(self) -> bool:
        return len(self.leaves) == 1 and is_undefined(self.leaves[0])

    @property
    def is_none(self) -> bool:
        return len(self.leaves) == 1 and self.leaves[0] is None

    @property
    def tensors(self) -> list[Any]:
        return [tensor(leaf) for leaf in self.leaves if is_tensor(leaf)]

    def filled(self, tensors: Any) -> Any:
        """Returns the value with these tensors, taken from an iterator."""
        leaves = [next(tensors) if is_tensor(leaf) else leaf for leaf in self.leaves]
        return jax.tree.unflatten(self.structure, leaves)


def values_of(names: Sequence[str], state: Sequence[Any]) -> list[Value]:
    """Returns variables taken apart."""
    return [Value.of(name, value) for name, value in zip(names, state, strict=True)]


def tensors_of(values: Sequence[Value]) -> list[Any]:
    """Returns the tensors in variables."""
    return [leaf for value in values for leaf in value.tensors]


def filled(values: Sequence[Value], tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Returns variables with these tensors."""
    given = iter(tensors)
    return tuple(value.filled(given) for value in values)


def is_tensor(leaf: Any) -> bool:
    """Returns whether a leaf can be an input or output of compiled control flow."""
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind in "biufc"
    return isinstance(leaf, (jax.Array, *_NUMBERS))


def difference(
    name: str, one: Any, other: Any, places: tuple[str, str]
) -> tuple[str, str] | None:
    """Returns whether "dtype" or "shape" of a tensor differs in two places, and a text.

    Args:
        name: The name of the variable.
        one: Its tensor in the first place.
        other: Its tensor in the second place.
        places: Where they are, as in "in the main branch".
    """
    for what in ("dtype", "shape"):
        first, second = getattr(tensor(one), what), getattr(tensor(other), what)
        if first != second:
            return what, (
                f"'{name}' has {what} {first} {places[0]}, but {what} {second} "
                f"{places[1]}."
            )
    return None


def is_same(one: Any, other: Any) -> bool:
    """Returns whether two objects, which are no tensors, are the same."""
    if one is other or (is_undefined(one) and is_undefined(other)):
        return True
    return type(one) is type(other) and isinstance(one, str | bytes) and one == other


def _is_leaf(value: Any) -> bool:
    return value is None or isinstance(value, mirrax.Variable) or is_undefined(value)
