"""Arrays that are given to a program: where they lie, and which it may overwrite."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax import jax_internals
from mirrax.variables import lending


def placement(array: Any) -> Any:
    """Returns what makes JAX look for another program, beside shape and dtype."""
    is_array = isinstance(array, jax.Array)
    return (array.sharding, array.committed) if is_array else type(array)


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
        and not any(map(jax_internals.ArrayImpl.is_deleted, donated))
    ):
        return donated
    seen = {id(array) for array in kept}
    owned = []
    for array in donated:
        if jax_internals.is_stored(array) and array.is_deleted():
            raise ValueError(
                "An argument in `donate_argnums` is overwritten by the call, so it "
                "cannot be given again. Received: an array that an earlier call took. "
                "Use what that call returned, or leave the argument out of "
                "`donate_argnums`."
            )
        is_shared = id(array) in seen or lending.is_view(array)
        seen.add(id(array))
        owned.append(jnp.copy(array) if is_shared else array)
    return owned
