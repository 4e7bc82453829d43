"""How inputs and outputs of a program lie on devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from mirrax._jax.arrays import shards, uncommitted
from mirrax.collectives import spmd, worker_exchange
from mirrax.collectives.reduce import shapes_of
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.devices.topology import AXIS, Topology
from mirrax.values.array_like import as_arrays
from mirrax.values.layouts import (
    Joined,
    Layout,
    Parts,
    Replicated,
    ShapeDtype,
    join_parts,
    require_parts,
)
from mirrax.values.per_replica import per_replica
from mirrax.values.regroup import leave_to_python
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Variable


@dataclasses.dataclass(frozen=True)
class Placement:
    """How one array of a program's inputs or outputs lies on the devices.

    Args:
        kind: "plain" or "mirrored" (an array), "replicated" (a `PerReplica` of equal
            parts) or "joined" (a `PerReplica` of any parts).
        topology: The devices of per-replica values.
        is_scalar: Whether the parts of a joined array are scalars.
        is_weak: Whether they are Python numbers.
        layout: How a mirrored array is cut, if it is sharded.
        shapes: Shape and dtype on each replica, if they differ; the parts of the joined
            array are padded to the same shape.
    """

    kind: str
    topology: Topology | None = None
    is_scalar: bool = False
    is_weak: bool = False
    layout: ShardLayout | None = None
    shapes: tuple[ShapeDtype, ...] | None = None

    @property
    def is_split(self) -> bool:
        return self.kind == "joined"

    @property
    def spec(self) -> PartitionSpec:
        if self.layout is not None:
            return self.layout.spec
        return PartitionSpec(AXIS) if self.is_split else PartitionSpec()

    def sharding(self, topology: Topology) -> NamedSharding:
        """Returns the sharding of the array in a program over several devices."""
        if self.layout is not None:
            return self.layout.sharding(topology)
        return topology.split if self.is_split else topology.replicated

    def of_replica(self, stand_in: Any) -> Any:
        """Returns what stands for one replica's part, given the stand-in of all."""
        if not self.is_split:
            return stand_in
        assert self.topology is not None
        rows = stand_in.shape[0] // self.topology.num_replicas
        shape = () if self.is_scalar else (rows, *stand_in.shape[1:])
        return jax.ShapeDtypeStruct(shape, stand_in.dtype, weak_type=self.is_weak)

    def wrap(self, array: jax.Array) -> Any:
        """Returns the value that the user sees for `array`."""
        if self.topology is None:
            return array
        if self.shapes is not None:
            local = [self.shapes[number] for number in self.topology.local_replicas]
            pairs = zip(shards(array), local, strict=True)
            parts = tuple(uncommitted(_fitted(p, shape)) for p, (shape, _) in pairs)
            return per_replica(Parts(parts, self.topology, self.shapes), self.topology)
        if self.kind == "joined":
            layout = Joined(array, self.is_scalar, self.topology, self.is_weak)
            return per_replica(layout, self.topology)
        return per_replica(Replicated(array, self.topology), self.topology)


PLAIN = Placement("plain")


_fitted = jax.jit(spmd.fitted, static_argnums=1)


def padded_parts(
    parts: Sequence[jax.Array], shapes: tuple[ShapeDtype, ...], topology: Topology
) -> tuple[Joined, Placement] | None:
    """Returns parts of different shapes as one value; None if they only can be parts.

    Args:
        shapes: Shape and dtype on each replica of all workers.
    """
    require_parts(parts, topology)
    each, dtypes = zip(*shapes, strict=True)
    if len(set(map(len, each))) > 1 or len(set(dtypes)) > 1:
        return None
    largest = tuple(map(max, zip(*each, strict=True)))
    placed = zip(parts, topology.local_devices, strict=True)
    padded = tuple(_fitted(jax.device_put(p, device), largest) for p, device in placed)
    joined = Joined(join_parts(padded, topology), False, topology)
    return joined, Placement("joined", topology, shapes=shapes)


def placement_of(layout: Layout) -> Placement:
    """Returns how a per-replica value that is one array lies on the devices."""
    if isinstance(layout, Joined):
        return Placement("joined", layout.topology, layout.is_scalar, layout.is_weak)
    assert isinstance(layout, Replicated)
    return Placement("replicated", layout.topology)


def placement_of_variable(variable: Variable) -> Placement:
    """Returns how the array of a variable lies on several devices."""
    is_split = isinstance(variable, SyncOnReadVariable)
    return Placement("joined" if is_split else "mirrored", layout=variable.layout)


def joined_parts(parts: Sequence[Any], topology: Topology) -> Joined:
    """Returns parts as one value; raises if their shapes differ."""
    arrays = tuple(as_arrays(parts))
    (layout,) = worker_exchange.with_shapes(topology, [Parts(arrays)])
    shapes, dtypes = map(set, zip(*shapes_of(layout), strict=True))
    # In one process, parts are converted to a common dtype.
    if len(shapes) > 1 or (len(dtypes) > 1 and not topology.is_local):
        leave_to_python()
    return Joined(join_parts(arrays, topology), arrays[0].ndim == 0, topology)


def only_topology(topologies: set[Topology]) -> Topology | None:
    """Returns the devices that a program runs on."""
    many = {topology for topology in topologies if not topology.is_single}
    if len(many) > 1:
        raise ValueError(
            "One function can use the devices of one strategy. Received: variables or "
            "values on "
            + " and on ".join(str(list(topology.names)) for topology in many)
            + ". Split the function, or use one strategy."
        )
    return next(iter(many or topologies), None)
