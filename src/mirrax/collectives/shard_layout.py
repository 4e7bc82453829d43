"""`ShardLayout`: an array cut along one axis, with one part on each replica."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from mirrax._jax.arrays import assembled, is_stored, shards, whole
from mirrax._jax.traces import evaluated
from mirrax.collectives import spmd, worker_guard
from mirrax.collectives.worker_all_reduce import sum_own_piece
from mirrax.devices.topology import AXIS, Topology
from mirrax.values.layouts import replicate


@dataclasses.dataclass(frozen=True)
class ShardLayout:
    """How an array of one shape is cut; arrays of the same shape are cut alike.

    If the size of the axis is no multiple of the number of replicas, the stored array
    has zeros at its end.

    >>> ShardLayout.of((3, 8), num_replicas=4).axis
    1
    >>> ShardLayout.of((3, 7), num_replicas=4).stored_shape
    (3, 8)
    """

    shape: tuple[int, ...]
    axis: int
    num_replicas: int

    @classmethod
    def of(cls, shape: tuple[int, ...], num_replicas: int) -> Self | None:
        """Returns how to cut such arrays; None for scalars and empty arrays."""
        if num_replicas == 1 or not math.prod(shape) or not shape:
            return None
        divisible = [i for i, size in enumerate(shape) if size % num_replicas == 0]
        axis = divisible[0] if divisible else shape.index(max(shape))
        return cls(shape, axis, num_replicas)

    @classmethod
    def of_array(cls, array: Any, topology: Topology | None = None) -> Self | None:
        """Returns how an array is cut over replicas; None if it is not cut so.

        Args:
            topology: The replicas, if only those count.
        """
        if not is_stored(array) or not is_cut(array.sharding):
            return None
        spec, mesh = array.sharding.spec, array.sharding.mesh
        if topology is not None and mesh != topology.mesh:
            return None
        layout = cls.of(array.shape, mesh.shape[AXIS])
        is_same_layout = layout is not None and layout.axis == spec.index(AXIS)
        return layout if is_same_layout else None

    @functools.cached_property
    def rows(self) -> int:
        """The size of each part along the axis."""
        return -(-self.shape[self.axis] // self.num_replicas)

    @functools.cached_property
    def num_padding(self) -> int:
        """The number of zeros at the end of the axis."""
        return self.rows * self.num_replicas - self.shape[self.axis]

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return self._with_size(self.rows * self.num_replicas)

    @property
    def part_shape(self) -> tuple[int, ...]:
        return self._with_size(self.rows)

    @property
    def spec(self) -> PartitionSpec:
        """The partition of the stored array over the mesh."""
        return PartitionSpec(*[None] * self.axis, AXIS)

    def sharding(self, topology: Topology) -> NamedSharding:
        return NamedSharding(topology.mesh, self.spec)

    def pad(self, value: jax.Array) -> jax.Array:
        return spmd.fitted(value, self.stored_shape)

    def trim(self, stored: jax.Array) -> jax.Array:
        return spmd.fitted(stored, self.shape)

    # Between programs.

    def store(self, value: Any, topology: Topology) -> jax.Array:
        """Returns a whole value, equal on all workers, with a part on each device."""
        with evaluated():
            if is_stored(value) and not topology.is_local:
                value = whole(value)
            padded = self.pad(value)
            sharding = self.sharding(topology)
            if topology.is_local:
                return jax.device_put(padded, sharding)
            pieces = [
                jax.device_put(self._piece(padded, index), device)
                for index, device in zip(
                    topology.local_replicas, topology.local_devices, strict=True
                )
            ]
            return assembled(self.stored_shape, sharding, pieces)

    def load(self, stored: jax.Array, topology: Topology, purpose: str) -> Any:
        """Returns the whole value on the host, or replicated if it has no other place.

        All workers call this together.
        """
        with evaluated():
            if topology.is_local:
                # By the host: it works while a program holds the devices.
                parts = [np.asarray(part) for part in shards(stored)]
                host = np.concatenate(parts, self.axis)
                return host[tuple(map(slice, self.shape))]
            gathered = _gather_program(self, topology)
            value = worker_guard.guarded(topology, purpose, gathered)(stored)
            return replicate(value, topology)

    # Inside the program of a replica.

    def own_part(self, value: jax.Array) -> jax.Array:
        start = lax.axis_index(AXIS) * self.rows
        return lax.dynamic_slice_in_dim(self.pad(value), start, self.rows, self.axis)

    def gather(self, part: jax.Array) -> jax.Array:
        """Returns the whole value, of which each replica has its part."""
        return self.trim(spmd.all_gather([part], self.axis)[0])

    def sum_part(self, value: jax.Array) -> jax.Array:
        """Returns this replica's part of the sum of the values of all replicas."""
        padded = self.pad(value)
        if spmd.is_between_cpus():
            # A small reduce-scatter of Gloo slows all later messages down.
            return sum_own_piece(padded, self.axis, self.num_replicas)
        return lax.psum_scatter(padded, AXIS, scatter_dimension=self.axis, tiled=True)

    def filled(self, part: jax.Array, padding: Any) -> jax.Array:
        """Returns a part with `padding` at the end of the axis."""
        if not self.num_padding:
            return part
        first = lax.axis_index(AXIS) * self.rows
        row = first + lax.broadcasted_iota(jnp.int32, part.shape, self.axis)
        is_data = row < self.shape[self.axis]
        return jnp.where(is_data, part, jnp.asarray(padding, part.dtype))

    def _with_size(self, size: int) -> tuple[int, ...]:
        return (*self.shape[: self.axis], size, *self.shape[self.axis + 1 :])

    def _piece(self, padded: Any, index: int) -> Any:
        rows = slice(index * self.rows, (index + 1) * self.rows)
        return padded[(*[slice(None)] * self.axis, rows)]


def is_cut(sharding: Any) -> bool:
    """Returns whether arrays of this sharding have a part on each replica."""
    if type(sharding) is not NamedSharding or sharding.is_fully_replicated:
        return False
    return AXIS in sharding.spec


@functools.lru_cache(maxsize=256)
def _gather_program(layout: ShardLayout, topology: Topology) -> Any:
    return worker_guard.replica_program(
        topology, "a read", layout.gather, layout.spec, PartitionSpec()
    )
