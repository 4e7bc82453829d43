"""Packs many small arrays into few messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

Reduce = Callable[[list[jax.Array]], list[jax.Array]]


def groups_by_bytes(
    values: Sequence[jax.Array], bytes_per_pack: int
) -> list[list[int]]:
    """Returns indices in packs, each closed once it holds `bytes_per_pack` bytes.

    >>> groups_by_bytes([jnp.int32(1), jnp.int32(2), jnp.zeros(2), jnp.int32(3)], 8)
    [[0, 1], [2], [3]]
    """
    groups: list[list[int]] = []
    filled = bytes_per_pack
    for index, value in enumerate(values):
        if filled >= bytes_per_pack:
            groups.append([])
            filled = 0
        groups[-1].append(index)
        filled += value.nbytes
    return groups


def groups_of_small(values: Sequence[jax.Array], small_bytes: int) -> list[list[int]]:
    """Returns indices with all small values in one pack, and the others separate.

    >>> groups_of_small([jnp.int32(1), jnp.zeros(25), jnp.zeros(2)], small_bytes=10)
    [[0, 2], [1]]
    """
    small = [i for i, value in enumerate(values) if value.nbytes <= small_bytes]
    large = [[i] for i, value in enumerate(values) if value.nbytes > small_bytes]
    return [small, *large] if small else large


def in_packs(
    values: Sequence[jax.Array], groups: Sequence[Sequence[int]], reduce: Reduce
) -> list[jax.Array]:
    """Returns `reduce` of all values, each group sent as one vector per dtype."""
    packs = [indices for group in groups for indices in _by_dtype(values, group)]
    totals = reduce([_join(values, indices) for indices in packs])
    results: dict[int, jax.Array] = {}
    for indices, total in zip(packs, totals, strict=True):
        if len(indices) == 1:
            results[indices[0]] = total
            continue
        start = 0
        for i in indices:
            stop = start + values[i].size
            results[i] = total[start:stop].reshape(values[i].shape)
            start = stop
    return [results[i] for i in range(len(values))]


def _join(values: Sequence[jax.Array], indices: Sequence[int]) -> jax.Array:
    if len(indices) == 1:
        return values[indices[0]]
    return jnp.concatenate([values[i].ravel() for i in indices])


def _by_dtype(values: Sequence[jax.Array], group: Sequence[int]) -> list[list[int]]:
    kinds: dict[object, list[int]] = {}
    for index in group:
        kinds.setdefault(values[index].dtype, []).append(index)
    return list(kinds.values())
