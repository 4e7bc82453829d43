"""Reduces whole structures in cross-replica context."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax import trees
from mirrax.collectives.reduce import Axis, Collective, reduce, reduce_one, require_axes
from mirrax.context import stack
from mirrax.context.guards import NotTraceable
from mirrax.options import ReduceOp
from mirrax.trees import Tree
from mirrax.values.array_like import as_array
from mirrax.values.layouts import Replicated
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import (
    is_mirrored_array,
    is_program_traced,
    local_results,
    regroup,
)
from mirrax.variables.distributed_variable import DistributedVariable
from mirrax.variables.variable import Variable


def reduce_tree(collective: Collective, op: ReduceOp, value: Tree, axis: Any) -> Tree:
    """Returns each leaf of `value` combined over the replicas and along `axis`."""
    if isinstance(axis, list):
        axis = tuple(axis)
    leaves, structure = trees.flatten(value)
    results: list[Any] = [None] * len(leaves)
    distributed = {}
    for index, leaf in enumerate(leaves):
        per_replica = as_per_replica(leaf, collective)
        if per_replica is None:
            results[index] = _reduce_plain(collective, op, leaf, axis)
        else:
            distributed[index] = per_replica
    if distributed:
        reduced = reduce(collective, op, list(distributed.values()), axis)
        for index, result in zip(distributed, reduced, strict=True):
            results[index] = result
    return trees.unflatten(structure, results)


def as_per_replica(leaf: Any, collective: Collective) -> PerReplica | None:
    """Returns a leaf as a per-replica value; None if it is an ordinary one."""
    topology = collective.topology
    if isinstance(leaf, PerReplica):
        return leaf
    if isinstance(leaf, Mirrored):
        return PerReplica(Replicated(leaf.array, topology))
    if is_mirrored_array(leaf, topology):
        return PerReplica(Replicated(leaf, topology))
    if isinstance(leaf, DistributedVariable):
        return leaf.copies()
    if not topology.is_local:
        if is_program_traced():
            # A program is the same on all workers.
            raise NotTraceable
        # Each worker has its own value, which is that of its replicas.
        return PerReplica((leaf,) * len(topology.local_devices))
    return None


def require_not_traced(leaf: Any) -> None:
    """Leaves a function to Python where only an array shows whether it is mirrored."""
    if isinstance(leaf, jax.core.Tracer) and is_program_traced():
        raise NotTraceable


def spread(leaf: Any, collective: Collective) -> Any:
    """Returns a mirrored value as a `PerReplica` of equal parts; others unchanged."""
    topology = collective.topology
    if isinstance(leaf, Variable) or topology.is_single:
        return leaf.array if isinstance(leaf, Mirrored) else leaf
    if not isinstance(leaf, Mirrored) and not is_mirrored_array(leaf, topology):
        return leaf
    if topology.is_local or stack.overlay() is not None:
        return as_per_replica(leaf, collective)
    # A worker with one replica gets arrays, as in a strategy with one replica.
    return regroup(list(local_results(leaf, topology)))


def _reduce_plain(
    collective: Collective, op: ReduceOp, leaf: Any, axis: Axis
) -> jax.Array:
    """Reduces a value that is not distributed: it is equal on every replica."""
    count = collective.topology.num_replicas
    value = jnp.asarray(as_array(leaf))
    if axis is None and op is ReduceOp.SUM and count > 1:
        require_not_traced(leaf)
        raise ValueError(
            f"A sum over replicas needs a value of each. Received: {leaf!r} for "
            f"{count} replicas; `run` returns an object or a number that is the same "
            "on all replicas only once. Return an array that each replica creates, as "
            "in `jnp.array(x)`, or multiply by `num_replicas_in_sync`."
        )
    require_axes(axis, value.ndim)
    reduced = reduce_one(op, value, axis)
    return reduced * count if op is ReduceOp.SUM and count > 1 else reduced
