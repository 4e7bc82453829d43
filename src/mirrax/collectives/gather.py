"""Joining the parts of a per-replica value along an axis."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from mirrax.collectives import within
from mirrax.collectives.reduce import require_axis
from mirrax.devices.topology import AXIS, Topology
from mirrax.errors import InvalidArgumentError
from mirrax.values.array_like import as_array
from mirrax.values.layouts import (
    Alike,
    Joined,
    Layout,
    Parts,
    Spmd,
    join,
    replicate,
    to_device,
)
from mirrax.values.per_replica import PerReplica


def gather(topology: Topology, value: PerReplica, axis: int) -> jax.Array:
    """Returns the parts of all replicas joined along `axis`, in replica order.

    Sizes may differ along `axis` only. The result is replicated over the topology.
    """
    layout = value.layout
    if isinstance(layout, Spmd):
        require_axis(axis, layout.value.ndim, "gather")
        return within.all_gather([layout.value], axis)[0]
    if isinstance(layout, Alike) and isinstance(layout.array, jax.core.Tracer):
        require_axis(axis, layout.array.ndim, "gather")
        return jnp.concatenate([layout.array] * topology.num_replicas, axis)
    if isinstance(layout, Parts):
        layout = Parts(tuple(jnp.asarray(as_array(part)) for part in layout.parts))
    if isinstance(layout, Joined) and isinstance(layout.array, jax.core.Tracer):
        require_axis(axis, 0 if layout.is_scalar else layout.array.ndim, "gather")
        return _gather_joined(topology, layout.array, axis)
    return _gather_parts(topology, layout, axis)


def _gather_parts(topology: Topology, layout: Layout, axis: int) -> jax.Array:
    parts = layout.parts
    for part in parts:
        require_axis(axis, part.ndim, "gather")
    require_joinable(parts, axis)
    if topology.is_single:
        return jnp.asarray(parts[0])
    if isinstance(layout, Alike) or len({part.shape for part in parts}) == 1:
        return _gather_joined(topology, join(parts, topology), axis)
    home = topology.local_devices[0]
    whole = jnp.concatenate([to_device(part, home) for part in parts], axis)
    return replicate(whole, topology)


def require_joinable(parts: Sequence[jax.Array], axis: int) -> None:
    """Raises unless the parts agree in everything but their size along `axis`."""

    def rest(part: jax.Array) -> tuple[Any, ...]:
        along = axis % part.ndim
        return (*part.shape[:along], None, *part.shape[along + 1 :], part.dtype)

    if any(rest(part) != rest(parts[0]) for part in parts):
        shapes = ", ".join(
            f"replica {i}: {part.dtype}{list(part.shape)}"
            for i, part in enumerate(parts)
        )
        raise InvalidArgumentError(
            "Gathered values must have the same rank, dtype and size on every replica, "
            f"but for axis {axis}. Received: {shapes}."
        )


def _gather_joined(topology: Topology, joined: jax.Array, axis: int) -> jax.Array:
    gathered: jax.Array = _gather_program(topology, axis)(joined)
    return gathered


@functools.lru_cache(maxsize=64)
def _gather_program(topology: Topology, axis: int) -> Any:
    return jax.jit(
        jax.shard_map(
            lambda part: within.all_gather([part], axis)[0],
            mesh=topology.mesh,
            in_specs=PartitionSpec(AXIS),
            out_specs=PartitionSpec(),
            check_vma=False,
        )
    )
