"""Concatenates the parts of a per-replica value along an axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from mirrax.collectives import spmd, worker_exchange, worker_guard
from mirrax.collectives.reduce import (
    describe_shapes,
    ndim_of,
    require_axis,
    shapes_of,
    with_arrays,
)
from mirrax.devices.topology import AXIS, Topology
from mirrax.errors import InvalidArgumentError
from mirrax.values.layouts import (
    Joined,
    Replicated,
    ShapeDtype,
    Spmd,
    join_parts,
    replicate,
    to_device,
)
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import refuse_captured


def gather(topology: Topology, value: PerReplica, axis: int) -> jax.Array:
    """Returns the parts of all replicas concatenated along `axis`, in replica order.

    Sizes may differ along `axis` only. The result is replicated over the topology.
    """
    refuse_captured(value, topology)
    (layout,) = worker_exchange.with_shapes(
        topology, [with_arrays(value.layout)], f"gather, axis {axis}"
    )
    require_axis(axis, ndim_of(layout), "gather")
    if isinstance(layout, Spmd):
        _require_equal_but_for(layout.shapes, axis)
        sizes = tuple(shape[axis] for shape, _ in layout.shapes)
        return spmd.all_gather_uneven(layout.value, axis, sizes)
    if isinstance(layout, Replicated) and isinstance(layout.array, jax.core.Tracer):
        return jnp.concatenate([layout.array] * topology.num_replicas, axis)
    if isinstance(layout, Joined) and isinstance(layout.array, jax.core.Tracer):
        return _gather_program(topology, axis)(layout.array)
    parts, shapes = layout.parts, shapes_of(layout)
    _require_equal_but_for(shapes, axis)
    if topology.is_single:
        return jnp.asarray(parts[0])
    if isinstance(layout, Replicated) or len({shape for shape, _ in shapes}) == 1:
        return _gather_program(topology, axis)(join_parts(parts, topology))
    if not topology.is_local:
        sizes = tuple(shape[axis] for shape, _ in shapes)
        largest = tuple(map(max, *(shape for shape, _ in shapes)))
        padded = tuple(spmd.fitted(part, largest) for part in parts)
        return _gather_program(topology, axis, sizes)(join_parts(padded, topology))
    home = topology.local_devices[0]
    whole = jnp.concatenate([to_device(part, home) for part in parts], axis)
    return replicate(whole, topology)


def _require_equal_but_for(shapes: Sequence[ShapeDtype], axis: int) -> None:
    """Raises unless the parts agree in everything but their size along `axis`."""

    def rest(part: ShapeDtype) -> tuple[Any, ...]:
        shape, dtype = part
        along = axis % len(shape)
        return (*shape[:along], None, *shape[along + 1 :], dtype)

    for part in shapes:
        if rest(part) != rest(shapes[0]):
            pairs = zip(rest(part)[:-1], rest(shapes[0])[:-1], strict=False)
            unequal = [index for index, (a, b) in enumerate(pairs) if a != b]
            where = [f"Dimension {i} in both shapes must be equal. " for i in unequal]
            raise InvalidArgumentError(
                f"Shape mismatch in a gather. {''.join(where[:1])}Dimensions of "
                f"inputs should match on every replica, but for axis {axis}; so should "
                f"ranks and dtypes. Received: {describe_shapes(shapes)}. Pad them, or "
                "gather along the axis that differs."
            )


@functools.lru_cache(maxsize=64)
def _gather_program(
    topology: Topology, axis: int, sizes: tuple[int, ...] | None = None
) -> Callable[[jax.Array], jax.Array]:
    def body(part: jax.Array) -> jax.Array:
        if sizes is None:
            return spmd.all_gather([part], axis)[0]
        return spmd.all_gather_uneven(part, axis, sizes)

    split, whole = PartitionSpec(AXIS), PartitionSpec()
    program = worker_guard.replica_program(topology, "gather", body, split, whole)
    return worker_guard.guarded(topology, "gather", program)
