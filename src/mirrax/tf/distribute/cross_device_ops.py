"""`tf.distribute.CrossDeviceOps`: reductions that users write as in TensorFlow."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import jax

import mirrax


class _Implementations:
    """The methods that subclasses define in TensorFlow, called for each reduction.

    A base of its own, because classes of `mirrax` refuse such methods.
    """

    def __init_subclass__(cls) -> None:
        pass

    def sum_over_replicas(
        self,
        values: Sequence[jax.Array],
        num_replicas: int,
        options: mirrax.CommunicationOptions,
    ) -> list[jax.Array]:
        """Gives the values of all replicas to `batch_reduce_implementation`."""
        gathered = jax.lax.all_gather(tuple(values), "replica")
        parts = [
            mirrax.PerReplica(tuple(stack[i] for i in range(num_replicas)))
            for stack in gathered
        ]
        pairs = [(value, value) for value in parts]
        reduced = self.batch_reduce_implementation(mirrax.ReduceOp.SUM, pairs, options)
        return [_of_one_replica(result) for result in reduced]

    def broadcast(self, tensor: Any, destinations: Any) -> Any:
        return self.broadcast_implementation(tensor, destinations)

    def reduce_implementation(
        self, reduce_op: Any, per_replica_value: Any, destinations: Any, options: Any
    ) -> Any:
        """Returns the sum of `per_replica_value.values`, or what stands for it."""
        raise NotImplementedError(
            "A reduction must say how values are combined. Received: "
            f"{type(self).__name__}. Define `reduce_implementation`."
        )

    def batch_reduce_implementation(
        self, reduce_op: Any, value_destination_pairs: Any, options: Any
    ) -> list[Any]:
        """Returns `reduce_implementation` of each pair."""
        return [
            self.reduce_implementation(reduce_op, value, destinations, options)
            for value, destinations in value_destination_pairs
        ]

    def broadcast_implementation(self, tensor: Any, destinations: Any) -> Any:
        return super().broadcast(tensor, destinations)  # type: ignore[misc]


class CrossDeviceOps(_Implementations, mirrax.CrossDeviceOps):
    """`tf.distribute.CrossDeviceOps`.

    Define `reduce_implementation`. It is called while a program is traced; for a mean
    it gets SUM, and its result is divided by the number of replicas.

    >>> class Largest(CrossDeviceOps):
    ...     def reduce_implementation(self, reduce_op, value, destinations, options):
    ...         return jax.numpy.stack(value.values).max(0)
    >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"], Largest())
    >>> float(strategy.reduce("SUM", mirrax.PerReplica((3.0, 5.0)), axis=None))
    5.0
    """


def _added_up(
    self: Any, reduce_op: Any, per_replica_value: Any, destinations: Any, options: Any
) -> Any:
    """Returns the sum of the parts, or their mean: custom reductions delegate to it."""
    parts = per_replica_value.values
    total = functools.reduce(operator.add, parts)
    return total / len(parts) if reduce_op is mirrax.ReduceOp.MEAN else total


_provided: list[Any] = [
    mirrax.HierarchicalCopyAllReduce,
    mirrax.NcclAllReduce,
    mirrax.ReductionToOneDevice,
]
for _kind in _provided:
    CrossDeviceOps.register(_kind)
    _kind.reduce_implementation = _added_up
    _kind.batch_reduce_implementation = CrossDeviceOps.batch_reduce_implementation
    _kind.broadcast_implementation = _kind.broadcast


def _of_one_replica(result: Any) -> Any:
    is_distributed = isinstance(result, mirrax.DistributedValues)
    return result.values[0] if is_distributed else result
