"""Donated arguments, which a compiled call may overwrite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from mirrax import trees
from mirrax._jax.arrays import ArrayImpl, donated_error
from mirrax.variables import aliasing


def donated_numbers(argnums: Any) -> tuple[int, ...]:
    """Returns the numbers of the positional arguments that a function may overwrite."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    is_list = isinstance(numbers, tuple | list)
    if not is_list or not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError(
            "`donate_argnums` is the number of a positional argument, from 0, or a "
            f"tuple of them. Received: donate_argnums={argnums!r}."
        )
    return tuple(numbers)


def are_donated(numbers: Sequence[int], structure: Any, name: str) -> list[bool]:
    """Returns which leaves of the arguments of a call of `name` are donated."""
    num_leaves = structure.num_leaves
    if not numbers:
        return [False] * num_leaves
    args, _ = trees.unflatten(structure, list(range(num_leaves)))
    if max(numbers) >= len(args):
        raise ValueError(
            "`donate_argnums` counts the arguments that are given by position. "
            f"Received: donate_argnums={tuple(numbers)} for a call of {name} "
            f"with {len(args)} of them. Give what is donated by position."
        )
    donated = {index for number in numbers for index in trees.leaves(args[number])}
    return [index in donated for index in range(num_leaves)]


def refuse_donated(arrays: Sequence[Any]) -> None:
    """Raises if one of these was donated before; XLA would crash the process."""
    # The usual case, checked for many arrays at once.
    are_arrays = {ArrayImpl}.issuperset(map(type, arrays))
    if are_arrays and not any(map(ArrayImpl.is_deleted, arrays)):
        return
    for array in arrays:
        is_deleted = getattr(array, "is_deleted", None)
        if is_deleted is not None and is_deleted():
            raise donated_error("such an array as an argument")


def copy_shared(donated: list[Any], kept: list[Any]) -> list[Any]:
    """Returns donated arguments, with a copy of each array that is shared.

    An array is shared if it is given twice, or if a variable uses its memory.
    """
    numbers = set(map(id, donated))
    if (
        # The usual case, checked for many arrays at once.
        len(numbers) == len(donated)
        and {ArrayImpl}.issuperset(map(type, donated))
        and numbers.isdisjoint(map(id, kept))
        and not aliasing.has_views(numbers)
    ):
        return donated
    seen = {id(array) for array in kept}
    owned = []
    for array in donated:
        is_shared = id(array) in seen or aliasing.is_view(array)
        seen.add(id(array))
        owned.append(jnp.copy(array) if is_shared else array)
    return owned
