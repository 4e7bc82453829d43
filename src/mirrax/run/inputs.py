"""Arrays that are given to a program: where they lie, and which it may overwrite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

from mirrax import jax_internals
from mirrax.variables import lending


def placement(array: Any) -> Any:
    """Returns what makes JAX look for another program, beside shape and dtype."""
    is_array = isinstance(array, jax.Array)
    return (array.sharding, array.committed) if is_array else type(array)


def refuse_taken(arrays: Iterable[Any]) -> None:
    """Raises if an earlier call has taken one of these; XLA would end the process."""
    for array in arrays:
        is_deleted = getattr(array, "is_deleted", None)
        if is_deleted is not None and is_deleted():
            raise jax_internals.donated("such an array as an argument")


def own_each(donated: list[Any], kept: list[Any]) -> list[Any]:
    """Returns donated arguments, each in an array that may be overwritten.

    One that is given twice, or that shares its memory with a variable, is copied.
    """
    numbers = set(map(id, donated))
    if (
        # What nearly always is so, and is quickly seen of many arrays at once.
        len(numbers) == len(donated)
        and {jax_internals.ArrayImpl}.issuperset(map(type, donated))
        and numbers.isdisjoint(map(id, kept))
        and not lending.has_views(numbers)
    ):
        return donated
    seen = {id(array) for array in kept}
    owned = []
    for array in donated:
        is_shared = id(array) in seen or lending.is_view(array)
        seen.add(id(array))
        owned.append(jnp.copy(array) if is_shared else array)
    return owned
