"""`CrossDeviceOps`: the base of algorithms that add up values of replicas."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.collectives.destinations import HasDevices, put_on_destinations
from mirrax.collectives.reduce import Collective, reduce
from mirrax.context import guards, stack
from mirrax.devices.topology import Topology
from mirrax.options import CommunicationOptions, ReduceOp, parse_reduce_op
from mirrax.values.array_like import as_array
from mirrax.values.per_replica import PerReplica

_NOT_TO_OVERRIDE = (
    "reduce",
    "batch_reduce",
    "broadcast",
    "reduce_implementation",
    "batch_reduce_implementation",
    "broadcast_implementation",
)


class CrossDeviceOps(abc.ABC):
    """How the values of several replicas are added up.

    >>> class Loud(CrossDeviceOps):
    ...     def sum_over_replicas(self, values, num_replicas, options):
    ...         print("adding up over", num_replicas)
    ...         return [jax.lax.psum(value, "replica") for value in values]
    >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=Loud())
    >>> ones = strategy.run(lambda: jax.numpy.array(1.0))
    >>> float(strategy.reduce("SUM", ones, axis=None))
    adding up over 2
    2.0
    """

    @abc.abstractmethod
    def sum_over_replicas(
        self,
        values: Sequence[jax.Array],
        num_replicas: int,
        options: CommunicationOptions,
    ) -> list[jax.Array]:
        """Returns the sums over all replicas, equal on each of them.

        Called while a program for one replica is traced: `values` are that replica's,
        and the mapped axis is called "replica".
        """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in _NOT_TO_OVERRIDE:
            if name in vars(cls):
                raise TypeError(
                    "A custom `CrossDeviceOps` overrides only `sum_over_replicas`. "
                    f"Received: {cls.__name__}, which defines `{name}`; strategies "
                    "would never call it. Move the sum to `sum_over_replicas`."
                )

    def reduce(
        self,
        reduce_op: ReduceOp | str,
        per_replica_value: Any,
        destinations: Any,
        options: CommunicationOptions | None = None,
    ) -> Any:
        """Returns a value combined over its replicas, on some devices.

        Args:
            reduce_op: SUM or MEAN.
            per_replica_value: A per-replica value; another is taken as one part.
            destinations: A variable or distributed value, which stands for its
                devices; a device name; or a list of names.
            options: Hints for the collective.

        >>> value = mirrax.PerReplica((1.0, 2.0))
        >>> with mirrax.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        ...     float(mirrax.NcclAllReduce().reduce("SUM", value, "CPU:0"))
        3.0
        """
        pairs = [(per_replica_value, destinations)]
        return self.batch_reduce(reduce_op, pairs, options)[0]

    def batch_reduce(
        self,
        reduce_op: ReduceOp | str,
        value_destination_pairs: Sequence[tuple[Any, Any]],
        options: CommunicationOptions | None = None,
    ) -> list[Any]:
        """Returns what `reduce` gives for each pair of value and destinations."""
        guards.require_cross_replica("`CrossDeviceOps.reduce`")
        op = parse_reduce_op(reduce_op)
        _require_pairs(value_destination_pairs)
        topologies = [_topology_of(*pair) for pair in value_destination_pairs]
        results = [value for value, _ in value_destination_pairs]
        by_topology: dict[Topology, list[int]] = {}
        for index, (value, topology) in enumerate(
            zip(results, topologies, strict=True)
        ):
            if isinstance(value, PerReplica):
                by_topology.setdefault(topology, []).append(index)
            else:
                results[index] = jnp.asarray(as_array(value))
        for topology, indices in by_topology.items():
            collective = Collective(topology, self, options or CommunicationOptions())
            values = [results[index] for index in indices]
            reduced = reduce(collective, op, values, axis=None)
            for index, result in zip(indices, reduced, strict=True):
                results[index] = result
        return [
            put_on_destinations(result, destinations, topology)
            for result, topology, (_, destinations) in zip(
                results, topologies, value_destination_pairs, strict=True
            )
        ]

    def broadcast(self, tensor: Any, destinations: Any) -> Any:
        """Returns `tensor` on the devices of `destinations`."""
        guards.require_cross_replica("`CrossDeviceOps.broadcast`")
        topology = _topology_of(destinations, destinations)
        return put_on_destinations(as_array(tensor), destinations, topology)


def _require_pairs(pairs: Sequence[Any]) -> None:
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(
                "`value_destination_pairs` must be a list of tuples (value, "
                f"destinations). Received: {pair!r} in it."
            )


def _topology_of(value: Any, destinations: Any) -> Topology:
    known = getattr(getattr(value, "layout", None), "topology", None)
    if isinstance(known, Topology):
        return known
    frame = stack.frame()
    if frame is not None:
        return frame.strategy.topology
    if isinstance(destinations, HasDevices):
        return Topology(destinations.lies_on)
    if not isinstance(value, PerReplica):
        return Topology(tuple(jax.local_devices()[:1]))
    raise ValueError(
        "A per-replica value is combined over the devices of a strategy. Received: "
        f"{value!r}, which has none, outside every scope. Call it inside "
        "`strategy.scope()`."
    )
