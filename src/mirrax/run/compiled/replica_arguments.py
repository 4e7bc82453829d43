"""The arguments of a traced replica function: split, the same on all, or static."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.collectives import worker_exchange
from mirrax.collectives.reduce import shapes_of
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.devices.topology import Topology
from mirrax.values.array_like import as_arrays, is_array, is_array_like
from mirrax.values.distributed_values import DistributedValues
from mirrax.values.layouts import Joined, Parts, Replicated, join_parts
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import leave_to_python, refuse_captured
from mirrax.variables.variable import Variable


@dataclasses.dataclass(frozen=True)
class Argument:
    """One leaf of the arguments of a replica function.

    Args:
        value: What is given: a traced array over all replicas, or any other object.
        local: What a replica sees of it, if it is an array.
        is_split: Whether the replicas get different parts.
        layout: How it is cut, if it is sharded state: replicas see the whole value.
    """

    value: Any
    local: Any = None
    is_split: bool = False
    layout: ShardLayout | None = None

    @property
    def is_dynamic(self) -> bool:
        return self.local is not None

    @classmethod
    def of_input(cls, described: Any, placement: Any) -> Argument:
        """Returns how an input of a program, placed like this, reaches the replicas.

        Args:
            described: A number, or the shape and dtype of an array.
        """
        if placement.kind != "joined":
            is_number = not isinstance(described, jax.ShapeDtypeStruct)
            local = stand_in(jnp.asarray(described)) if is_number else described
            return cls(None, local, layout=placement.layout)
        local = _local_kind(
            described, placement.is_scalar, placement.is_weak, placement.topology
        )
        return cls(None, local, is_split=True)


def argument_of(leaf: Any, topology: Topology) -> Argument:
    """Returns how `leaf` reaches the replicas."""
    if isinstance(leaf, Variable) or not isinstance(leaf, DistributedValues):
        return _plain_argument(leaf)
    if isinstance(leaf, Mirrored):
        return _plain_argument(leaf.array)
    assert isinstance(leaf, PerReplica)
    refuse_captured(leaf, topology)
    layout = leaf.layout
    if isinstance(layout, Replicated):
        return _plain_argument(layout.array)
    if not isinstance(layout, Joined):
        parts = layout.parts
        if not is_array_like(parts[0]):
            return _require_same(parts)
        if topology.is_local and all(part is parts[0] for part in parts):
            return _plain_argument(parts[0])
        layout = joined_parts(parts, topology)
    local = _local_kind(layout.array, layout.is_scalar, layout.is_weak, topology)
    return Argument(layout.array, local, is_split=True)


def _local_kind(
    joined: Any, is_scalar: bool, is_weak: bool, topology: Topology
) -> jax.ShapeDtypeStruct:
    """Returns the shape and dtype of one replica's part of a joined array."""
    rows = joined.shape[0] // topology.num_replicas
    shape = () if is_scalar else (rows, *joined.shape[1:])
    return jax.ShapeDtypeStruct(shape, joined.dtype, weak_type=is_weak)


def joined_parts(parts: Sequence[Any], topology: Topology) -> Joined:
    """Returns parts as one value; raises if their shapes differ."""
    arrays = tuple(as_arrays(parts))
    (layout,) = worker_exchange.with_shapes(topology, [Parts(arrays)])
    shapes, dtypes = map(set, zip(*shapes_of(layout), strict=True))
    # In one process, parts are converted to a common dtype.
    if len(shapes) > 1 or (len(dtypes) > 1 and not topology.is_local):
        leave_to_python()
    return Joined(join_parts(arrays, topology), arrays[0].ndim == 0, topology)


def _plain_argument(leaf: Any) -> Argument:
    if is_array(leaf):
        return Argument(leaf, stand_in(leaf))
    return Argument(leaf)


def stand_in(array: Any) -> jax.ShapeDtypeStruct:
    """Returns a description of an array, to trace with."""
    if isinstance(array, jax.Array):
        weak = bool(array.aval.weak_type)
        return jax.ShapeDtypeStruct(array.shape, array.dtype, weak_type=weak)
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    return jax.ShapeDtypeStruct(array.shape, dtype)


def _require_same(parts: Sequence[Any]) -> Argument:
    if any(part != parts[0] for part in parts):
        raise TypeError(
            "A function that is compiled once for all replicas can be given different "
            "numbers and arrays on each, but no other objects. Received: "
            f"{parts!r}. Use arrays, or call `strategy.run` with a plain function."
        )
    return Argument(parts[0])
