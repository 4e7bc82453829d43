"""Derivatives of the collectives of eager replicas.

The replicas meet in the forward and in the backward pass. Where those are
differentiated themselves, for second derivatives, what they call is differentiable too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Reduce = Callable[[list[jax.Array]], list[jax.Array]]
Gather = Callable[[list[jax.Array], int], list[jax.Array]]


def differentiable_reduce(reduce: Reduce, values: list[jax.Array]) -> list[jax.Array]:
    """Returns `reduce(values)`; its gradient is `reduce` of the gradients.

    Args:
        reduce: Combines arrays over the replicas, and is differentiable where it must.
        values: What this replica brings.
    """

    @jax.custom_vjp
    def function(arrays: list[jax.Array]) -> list[jax.Array]:
        return reduce(arrays)

    def forward(arrays: list[jax.Array]) -> tuple[list[jax.Array], None]:
        return reduce(arrays), None

    def backward(_: None, cotangents: list[Any]) -> tuple[list[Any]]:
        is_float = [c.dtype != jax.dtypes.float0 for c in cotangents]
        floats = [c for c, flag in zip(cotangents, is_float, strict=True) if flag]
        reduced = iter(reduce(floats))
        return (
            [
                next(reduced) if flag else cotangent
                for cotangent, flag in zip(cotangents, is_float, strict=True)
            ],
        )

    function.defvjp(forward, backward)
    return list(function(values))


def differentiable_gather(
    gather: Gather, add_up: Reduce, values: list[jax.Array], axis: int, replica_id: int
) -> list[jax.Array]:
    """Returns `gather(values, axis)`.

    Its gradient is this replica's slice of the gradients that all replicas have.

    Args:
        gather: Joins arrays of the replicas, and is differentiable where it must.
        add_up: Adds arrays up over the replicas, in the same way.
        values: What this replica brings.
        axis: The dimension along which arrays are joined.
        replica_id: The number of this replica.
    """

    @jax.custom_vjp
    def function(arrays: list[jax.Array]) -> list[jax.Array]:
        return gather(arrays, axis)

    def forward(arrays: list[jax.Array]) -> tuple[list[jax.Array], list[int]]:
        sizes = gather([jnp.array([array.shape[axis]]) for array in arrays], 0)
        starts = [int(size[:replica_id].sum()) for size in sizes]
        return gather(arrays, axis), starts

    def backward(
        starts: list[int], cotangents: list[jax.Array]
    ) -> tuple[list[jax.Array]]:
        totals = add_up(list(cotangents))
        own = [
            jax.lax.slice_in_dim(total, start, start + value.shape[axis], axis=axis)
            for total, start, value in zip(totals, starts, values, strict=True)
        ]
        return (own,)

    function.defvjp(forward, backward)
    return list(function(values))
