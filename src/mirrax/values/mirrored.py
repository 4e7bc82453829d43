"""`Mirrored`: a value that is equal on all its devices."""

from __future__ import annotations

from typing import Any

import jax
from typing_extensions import override

from mirrax._jax.arrays import shards, uncommitted
from mirrax.values.array_like import ArrayLike
from mirrax.values.distributed_values import DistributedValues


class Mirrored(DistributedValues, ArrayLike):
    """A value that is equal on every replica; usable like an array.

    `run` returns such values as plain replicated arrays. The cross-replica methods of
    `extended` return this class.

    >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    >>> devices = strategy.extended.worker_devices
    >>> value = strategy.extended.broadcast_to(1.0, destinations=devices)
    >>> float(value + 1), len(value.values)
    (2.0, 2)
    """

    __slots__ = ("array",)
    _label = "Mirrored"

    def __init__(self, array: jax.Array) -> None:
        self.array = array

    @property
    @override
    def values(self) -> tuple[Any, ...]:
        """The copies in this process, in replica order."""
        if isinstance(self.array, jax.core.Tracer):
            return (self.array,)
        return tuple(uncommitted(s) for s in shards(self.array))

    @property
    def device(self) -> Any:
        """The device of the first copy."""
        return self.for_replica(0).device

    @override
    def for_replica(self, index: int) -> jax.Array:
        is_traced = isinstance(self.array, jax.core.Tracer)
        return self.array if is_traced else uncommitted(shards(self.array)[index])

    @override
    def __jax_array__(self) -> jax.Array:
        return self.for_replica(0)


jax.tree_util.register_pytree_node(
    Mirrored, lambda value: ((value.array,), None), lambda _, children: children[0]
)
