"""Reduces per-replica values in cross-replica context."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from mirrax.collectives import spmd, worker_exchange, worker_guard
from mirrax.devices.topology import AXIS, Topology
from mirrax.errors import InvalidArgumentError
from mirrax.options import CommunicationOptions, ReduceOp
from mirrax.values.array_like import as_combinable
from mirrax.values.layouts import (
    Joined,
    Layout,
    Parts,
    Replicated,
    ShapeDtype,
    Spmd,
    join_parts,
    require_parts,
)
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import refuse_captured

if TYPE_CHECKING:
    from mirrax.collectives.cross_device_ops import CrossDeviceOps

Axis = int | tuple[int, ...] | None


@dataclasses.dataclass(frozen=True)
class Collective:
    """What a collective needs: the devices, the algorithm, and its options.

    Args:
        update_bytes: From which size on replicas divide the updates of mirrored
            variables among them; None for never.
    """

    topology: Topology
    ops: CrossDeviceOps
    options: CommunicationOptions = CommunicationOptions()  # noqa: RUF009 - frozen
    update_bytes: int | None = None


def reduce(
    collective: Collective,
    op: ReduceOp,
    values: Sequence[PerReplica],
    axis: Axis,
    purpose: str = "",
) -> list[jax.Array]:
    """Returns each value combined over the replicas and, with `axis`, along it.

    The results are replicated over the topology. Parts may differ in size along
    `axis`: a mean divides by the total number of elements.
    """
    purpose = purpose or f"reduce {op.name}"
    for value in values:
        refuse_captured(value, collective.topology)
    layouts = [
        with_arrays(_on_devices(value.layout, collective.topology)) for value in values
    ]
    for layout in layouts:
        if isinstance(layout, Parts):
            require_parts(layout.parts, collective.topology)
    layouts = worker_exchange.with_shapes(
        collective.topology, layouts, f"reduce {op.name}, axis {axis}"
    )
    for layout in layouts if axis is not None else ():
        require_axes(axis, ndim_of(layout))
    if axis is not None and any(_is_uneven(layout) for layout in layouts):
        return [
            _reduce_uneven(collective, op, layout, axis, purpose) for layout in layouts
        ]
    return _reduce_even(collective, op, layouts, axis, purpose)


def _reduce_even(
    collective: Collective,
    op: ReduceOp,
    layouts: Sequence[Layout],
    axis: Axis,
    purpose: str,
) -> list[jax.Array]:
    topology = collective.topology
    traced = [layout.value for layout in layouts if isinstance(layout, Spmd)]
    if len(traced) == len(layouts):
        return _reduce_within(collective, op, traced, axis)
    if topology.is_single:
        return [reduce_one(op, layout.parts[0], axis) for layout in layouts]
    joined = [_joined(layout, topology) for layout in layouts]
    kinds = tuple(
        "replicated"
        if isinstance(j, Replicated)
        else "scalar"
        if j.is_scalar
        else "array"
        for j in joined
    )
    program = worker_guard.guarded(
        topology, purpose, _reduce_program(collective, op, kinds, axis)
    )
    return list(program(*[j.array for j in joined]))


@functools.lru_cache(maxsize=256)
def _reduce_program(
    collective: Collective, op: ReduceOp, kinds: tuple[str, ...], axis: Axis
) -> Any:
    def body(*arrays: jax.Array) -> tuple[jax.Array, ...]:
        values = [
            a.reshape(()) if kind == "scalar" else a
            for a, kind in zip(arrays, kinds, strict=True)
        ]
        return tuple(_reduce_within(collective, op, values, axis))

    specs = tuple(
        PartitionSpec() if kind == "replicated" else PartitionSpec(AXIS)
        for kind in kinds
    )
    return worker_guard.replica_program(
        collective.topology, "reduce", body, specs, PartitionSpec()
    )


def _reduce_within(
    collective: Collective, op: ReduceOp, values: Sequence[jax.Array], axis: Axis
) -> list[jax.Array]:
    local = [reduce_one(op, value, axis) for value in values]
    num_replicas = collective.topology.num_replicas
    return spmd.all_reduce(op, local, num_replicas, collective.ops, collective.options)


def reduce_one(op: ReduceOp, value: jax.Array, axis: Axis) -> jax.Array:
    """Returns one replica's value combined along `axis`; means are floats."""
    value = spmd.summable(op, jnp.asarray(value))
    if axis is None:
        return value
    total = jnp.sum(value, axis, dtype=value.dtype)
    return total if op is ReduceOp.SUM else total / _count(value.shape, axis)


def _reduce_uneven(
    collective: Collective, op: ReduceOp, layout: Layout, axis: Axis, purpose: str
) -> jax.Array:
    assert axis is not None
    shapes = shapes_of(layout)

    def summed(part: Any) -> jax.Array:
        return reduce_one(ReduceOp.SUM, spmd.summable(op, part), axis)

    sums: Layout
    if isinstance(layout, Spmd):
        sums = Spmd(summed(layout.value))
    else:
        sums = Parts(
            tuple(map(summed, layout.parts)),
            collective.topology,
            tuple((_without(shape, axis), dtype) for shape, dtype in shapes),
        )
    (total,) = _reduce_even(collective, ReduceOp.SUM, [sums], None, purpose)
    if op is ReduceOp.SUM:
        return total
    return total / sum(_count(shape, axis) for shape, _ in shapes)


def describe_shapes(shapes: Sequence[ShapeDtype]) -> str:
    """Returns the shape and dtype on each replica, for errors."""
    return ", ".join(
        f"replica {i}: {dtype}{list(shape)}" for i, (shape, dtype) in enumerate(shapes)
    )


def _on_devices(layout: Layout, topology: Topology) -> Layout:
    """Returns `layout`; as parts, if its array is on other devices."""
    if not isinstance(layout, Joined | Replicated) or layout.topology == topology:
        return layout
    return Parts(layout.parts)


def with_arrays(layout: Layout) -> Layout:
    """Returns `layout` with Python numbers and variables as arrays."""
    if not isinstance(layout, Parts):
        return layout
    if all(isinstance(part, jax.Array) for part in layout.parts):
        return layout
    return dataclasses.replace(layout, parts=tuple(as_combinable(layout.parts)))


def _joined(layout: Layout, topology: Topology) -> Joined | Replicated:
    if isinstance(layout, Joined | Replicated):
        return layout
    parts, shapes = layout.parts, shapes_of(layout)
    if any(shape != shapes[0] for shape in shapes):
        raise InvalidArgumentError(
            "A reduction over replicas needs the same shape and dtype on each. "
            f"Received: {describe_shapes(shapes)}. Give an `axis` to reduce along, or "
            "make the parts equal first."
        )
    return Joined(join_parts(parts, topology), parts[0].ndim == 0, topology)


def _is_uneven(layout: Layout) -> bool:
    if not isinstance(layout, Parts | Spmd):
        return False
    shapes = shapes_of(layout)
    return any(shape != shapes[0][0] for shape, _ in shapes)


def shapes_of(layout: Layout) -> Sequence[ShapeDtype]:
    """Returns shape and dtype of the part on each replica."""
    if isinstance(layout, Parts | Spmd) and layout.shapes is not None:
        return layout.shapes
    return [worker_exchange.shape_dtype_of(part) for part in layout.parts]


def _without(shape: tuple[int, ...], axis: int | tuple[int, ...]) -> tuple[int, ...]:
    axes = {a % len(shape) for a in (axis if isinstance(axis, tuple) else (axis,))}
    return tuple(size for i, size in enumerate(shape) if i not in axes)


def ndim_of(layout: Layout) -> int:
    """Returns the number of dimensions that all parts have."""
    match layout:
        case Parts():
            return min(len(shape) for shape, _ in shapes_of(layout))
        case Spmd(value=array) | Replicated(array=array):
            return array.ndim
        case Joined(array=array, is_scalar=is_scalar):
            return 0 if is_scalar else array.ndim


def require_axes(axis: Axis, ndim: int) -> None:
    """Raises unless values of `ndim` dimensions have all these axes."""
    for a in _axes(axis):
        require_axis(a, ndim, "reduce")


def require_axis(axis: object, ndim: int, what: str) -> None:
    """Raises unless values of `ndim` dimensions have this axis."""
    is_number = isinstance(axis, int | np.integer) and not isinstance(axis, bool)
    if not is_number or not -ndim <= axis < ndim:  # type: ignore[operator]
        raise ValueError(
            f"`axis` of {what} must be a dimension of each replica's value. Received: "
            f"axis={axis!r} for values with {ndim} dimension(s)."
        )


def _count(shape: tuple[int, ...], axis: Axis) -> int:
    return math.prod(shape[a] for a in _axes(axis))


def _axes(axis: Axis) -> tuple[int, ...]:
    return () if axis is None else axis if isinstance(axis, tuple) else (axis,)
