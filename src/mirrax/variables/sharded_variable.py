"""Variables of which each replica stores a part; to all code they are mirrored ones."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding
from typing_extensions import override

from mirrax._jax.arrays import shards
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.devices.topology import Topology
from mirrax.values.layouts import Replicated, replicate, to_device
from mirrax.values.per_replica import PerReplica
from mirrax.variables import aliasing
from mirrax.variables.mirrored_variable import MirroredVariable
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Change, Variable, register_as_pytree, replace


class ShardedVariable(MirroredVariable):
    """A variable with one value, of which each replica stores a part.

    A compiled `run` computes its new value part by part where it can. Other reads
    gather the parts; with several workers, all of them read together.
    """

    @functools.cached_property
    def layout(self) -> ShardLayout:
        """How its array is cut over the replicas."""
        layout = ShardLayout.of(self._shape, self.topology.num_replicas)
        assert layout is not None
        return layout

    @override
    def _replicated(self) -> jax.Array:
        return replicate(self._gathered(), self.topology)

    @override
    def _peek_parts(self) -> Sequence[Any]:
        count = len(self.topology.local_devices)
        if self.topology.is_local:
            return [self._shard(0)] * count
        return [jax.ShapeDtypeStruct(tuple(self.shape), self.dtype)] * count

    @override
    def _placed(self, value: Any) -> jax.Array:
        return self.layout.store(value, self.topology)

    @override
    def _old_for(self, change: Change) -> jax.Array:
        return super()._old_for(change) if change is replace else self._replicated()

    @override
    def shared_view(self, index: int) -> jax.Array:
        return self._shard(index)

    @override
    def _shard(self, index: int) -> jax.Array:
        whole = self._gathered()
        if not self.topology.is_local:
            whole = shards(whole)[index]
        return to_device(whole, self.topology.local_devices[index])

    @override
    def _written(self, new: Any) -> PerReplica:
        # Parts would have to be gathered.
        return PerReplica(Replicated(replicate(new, self.topology), self.topology))

    def _gathered(self) -> Any:
        """Returns the whole value; all workers call this together."""
        with aliasing.lock:
            purpose = f"read of {self.shared_name} (sharded: all workers read together)"
            return self.layout.load(self._readable(), self.topology, purpose)


def layout_of(variable: Variable) -> ShardLayout | None:
    """Returns how the array of a variable is cut; None if it is whole."""
    return variable.layout if isinstance(variable, ShardedVariable) else None


def to_stored(variable: Variable, value: jax.Array) -> jax.Array:
    """Returns, in a program, what is stored for the value of a variable."""
    layout = layout_of(variable)
    return value if layout is None else layout.pad(value)


def from_stored(variable: Variable, stored: jax.Array) -> jax.Array:
    """Returns, in a program, the value of a variable that stores this array."""
    layout = layout_of(variable)
    return stored if layout is None else layout.trim(stored)


def sharding_of(variable: Variable, topology: Topology) -> NamedSharding:
    """Returns how the array of a variable lies in a program over several devices."""
    layout = layout_of(variable)
    if layout is not None:
        return layout.sharding(topology)
    is_split = isinstance(variable, SyncOnReadVariable)
    return topology.split if is_split else topology.replicated


register_as_pytree(ShardedVariable)
