"""Joining the parts of a per-replica value along an axis."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from mirrax._jax.config import without_nan_rerun
from mirrax.collectives import spmd, worker_exchange, worker_guard
from mirrax.collectives.reduce import require_axis
from mirrax.devices.topology import AXIS, Topology
from mirrax.errors import InvalidArgumentError
from mirrax.values.array_like import as_arrays, is_key
from mirrax.values.layouts import (
    Alike,
    Joined,
    Kind,
    Layout,
    Parts,
    Spmd,
    join,
    replicate,
    to_device,
)
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import refuse_captured


def gather(topology: Topology, value: PerReplica, axis: int) -> jax.Array:
    """Returns the parts of all replicas joined along `axis`, in replica order.

    Sizes may differ along `axis` only. The result is replicated over the topology.
    """
    refuse_captured(value, topology)
    layout = value.layout
    if isinstance(layout, Spmd):
        require_axis(axis, layout.value.ndim, "gather")
        return spmd.all_gather([layout.value], axis)[0]
    if isinstance(layout, Alike) and isinstance(layout.array, jax.core.Tracer):
        require_axis(axis, layout.array.ndim, "gather")
        return jnp.concatenate([layout.array] * topology.num_replicas, axis)
    if isinstance(layout, Parts):
        held = tuple(as_arrays(layout.held))
        layout = dataclasses.replace(layout, held=held)
    if isinstance(layout, Joined) and isinstance(layout.array, jax.core.Tracer):
        require_axis(axis, 0 if layout.is_scalar else layout.array.ndim, "gather")
        return _gather_joined(topology, layout.array, axis)
    return _gather_parts(topology, layout, axis)


def _gather_parts(topology: Topology, layout: Layout, axis: int) -> jax.Array:
    (layout,) = worker_exchange.with_kinds(topology, [layout], f"gather, axis {axis}")
    parts = layout.parts
    known = layout.kinds if isinstance(layout, Parts) else None
    kinds = known or [worker_exchange.kind_of(part) for part in parts]
    for shape, _ in kinds:
        require_axis(axis, len(shape), "gather")
    require_joinable(kinds, axis)
    if topology.is_single:
        return jnp.asarray(parts[0])
    if isinstance(layout, Alike) or len({shape for shape, _ in kinds}) == 1:
        return _gather_joined(topology, join(parts, topology), axis)
    if not topology.is_local:
        return _gather_padded(topology, parts, kinds, axis)
    home = topology.local_devices[0]
    whole = jnp.concatenate([to_device(part, home) for part in parts], axis)
    return replicate(whole, topology)


def _gather_padded(
    topology: Topology, parts: Sequence[jax.Array], kinds: Sequence[Kind], axis: int
) -> jax.Array:
    """Gathers parts of different sizes from all workers, filled up on their way."""
    along = axis % parts[0].ndim
    if is_key(parts[0]):
        data = [jax.random.key_data(part) for part in parts]
        gathered = _gather_padded(topology, data, kinds, along)
        impl = jax.random.key_impl(parts[0])
        keys: jax.Array = jax.random.wrap_key_data(gathered, impl=impl)
        return keys
    sizes = tuple(shape[along] for shape, _ in kinds)

    def filled(part: jax.Array) -> jax.Array:
        missing = [(0, 0)] * part.ndim
        missing[along] = (0, max(sizes) - part.shape[along])
        return jnp.pad(part, missing)

    joined = join(tuple(map(filled, parts)), topology)
    gathered = _gather_joined(topology, joined, along)
    whole: jax.Array = _trim_program(topology, along, sizes)(gathered)
    return whole


@functools.lru_cache(maxsize=64)
def _trim_program(topology: Topology, axis: int, sizes: tuple[int, ...]) -> Any:
    """Returns the program that takes out what `_gather_padded` filled in."""
    kept = np.concatenate([i * max(sizes) + np.arange(n) for i, n in enumerate(sizes)])
    return jax.jit(
        lambda whole: jnp.take(whole, kept, axis), out_shardings=topology.replicated
    )


def require_joinable(kinds: Sequence[Kind], axis: int) -> None:
    """Raises unless the parts agree in everything but their size along `axis`."""

    def rest(kind: Kind) -> tuple[Any, ...]:
        shape, dtype = kind
        along = axis % len(shape)
        return (*shape[:along], None, *shape[along + 1 :], dtype)

    if any(rest(kind) != rest(kinds[0]) for kind in kinds):
        shapes = ", ".join(
            f"replica {i}: {dtype}{list(shape)}"
            for i, (shape, dtype) in enumerate(kinds)
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
    program = jax.jit(
        without_nan_rerun(
            jax.shard_map(
                lambda part: spmd.all_gather([part], axis)[0],
                mesh=topology.mesh,
                in_specs=PartitionSpec(AXIS),
                out_specs=PartitionSpec(),
                check_vma=False,
            ),
            "gather",
        )
    )
    return worker_guard.guarded(topology, "gather", program)
