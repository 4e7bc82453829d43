"""Replica contexts and collectives in a trace that stands for all replicas."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mirrax import trees
from mirrax.collectives import spmd
from mirrax.collectives.reduce import Collective
from mirrax.context import stack
from mirrax.devices.topology import AXIS, Topology
from mirrax.options import CommunicationOptions, ReduceOp
from mirrax.run.replica_context import (
    ReplicaCall,
    ReplicaContext,
    SingleReplica,
)
from mirrax.trees import Tree
from mirrax.values.array_like import as_arrays
from mirrax.values.layouts import Parts, ShapesOnReplicas, Spmd, equal_shapes
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import refuse_captured, select


def call_in_replica(
    call: ReplicaCall,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shapes_on_replicas: ShapesOnReplicas = equal_shapes,
) -> Tree:
    """Returns `fn(*args, **kwargs)` in the context of one replica, while it is traced.

    Args:
        shapes_on_replicas: Returns the shapes of traced values.
    """
    communicator = SpmdCommunicator(call.strategy, call.collective, shapes_on_replicas)
    context = ReplicaContext(call.strategy, communicator)
    with stack.entered(stack.Replica(call.strategy, context, index=None, call=call)):
        return call.fn(*args, **kwargs)


def run_within(call: ReplicaCall) -> Tree:
    """Returns the results of a `run` in a traced merge function.

    The trace is that of a replica already, so the function becomes part of it.
    """
    own_part = functools.partial(_own_part, topology=call.topology)
    args, kwargs = trees.map_leaves(own_part, (call.args, call.kwargs))
    leaves = trees.leaves((call.args, call.kwargs))
    layouts = [leaf.layout for leaf in leaves if isinstance(leaf, PerReplica)]
    traced = (each for each in layouts if isinstance(each, Spmd))
    shapes = next((each.shapes_on_replicas for each in traced), equal_shapes)
    results = call_in_replica(call, args, kwargs, shapes)
    return trees.map_leaves(functools.partial(_as_per_replica, shapes), results)


def call_alone(call: ReplicaCall) -> Tree:
    """Calls the function on the only replica."""
    if stack.overlay() is None:
        place = stack.separate_traces(0, 1)
    else:
        place = stack.separate_traces_inside(0, 1)
        stack.overlay().note_run(call.strategy)
    context = ReplicaContext(call.strategy, SingleReplica(call.strategy))
    with place, stack.entered(stack.Replica(call.strategy, context, index=0)):
        args, kwargs = select((call.args, call.kwargs), 0)
        return call.fn(*args, **kwargs)


class SpmdCommunicator:
    """A replica's connection to the others in a traced program."""

    def __init__(
        self,
        strategy: Any,
        collective: Collective,
        shapes_on_replicas: ShapesOnReplicas,
    ) -> None:
        self._strategy = strategy
        self._collective = collective
        self._shapes_on_replicas = shapes_on_replicas

    @property
    def replica_id(self) -> jax.Array:
        return lax.axis_index(AXIS)

    def merge_call(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        as_per_replica = functools.partial(_as_per_replica, self._shapes_on_replicas)
        args, kwargs = trees.map_leaves(as_per_replica, (args, kwargs))
        with stack.entered(stack.CrossReplica(self._strategy)):
            merged = fn(self._strategy, *args, **kwargs)
        own_part = functools.partial(_own_part, topology=self._collective.topology)
        return trees.map_leaves(own_part, merged)

    def all_reduce(
        self,
        op: ReduceOp,
        values: list[jax.Array],
        options: CommunicationOptions,
        structure: Any = None,
    ) -> list[jax.Array]:
        count = self._collective.topology.num_replicas
        return spmd.all_reduce(op, values, count, self._collective.ops, options)

    def all_gather(
        self, values: list[jax.Array], axis: int, structure: Any = None
    ) -> list[jax.Array]:
        columns = self._shapes_on_replicas(values)
        return [
            spmd.all_gather_uneven(value, axis, [shape[axis] for shape in shapes])
            for value, shapes in zip(values, columns, strict=True)
        ]


def _own_part(leaf: Any, topology: Topology) -> Any:
    match leaf:
        case Mirrored():
            return leaf.array
        case PerReplica(layout=Spmd(value=value)):
            return value
        case PerReplica(layout=Parts(parts=parts)):
            refuse_captured(leaf, topology)
            return jnp.stack(as_arrays(parts))[lax.axis_index(AXIS)]
        case _:
            return leaf


def _as_per_replica(shapes_on_replicas: ShapesOnReplicas, leaf: Any) -> Any:
    # An array that is not traced is one from outside, the same on every replica.
    varies = isinstance(leaf, jax.core.Tracer | np.ndarray | np.generic)
    if not varies:
        return leaf
    return PerReplica(Spmd(jnp.asarray(leaf), shapes_on_replicas))
