"""The arguments of a compiled call: inputs of its program, or static."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from mirrax import trees
from mirrax._jax.arrays import ArrayImpl
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.collectives.worker_exchange import shape_dtype_of
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.run.compiled.placement import PLAIN, Placement, placement_of
from mirrax.run.compiled.replica_arguments import stand_in
from mirrax.trees import IdentityKey, NotTraceableLeaf
from mirrax.values.array_like import as_arrays, is_array_like
from mirrax.values.layouts import Joined, Layout, Parts, Replicated, join_parts
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import LocalPerReplica, PerReplica

KeyedArgument = tuple[Any, Any, Layout | Placement | None]
"""Cache key of an argument, input of the program, and how that is laid out.

A static argument, which is part of the program, has no layout.
"""

NOT_TRACEABLE: KeyedArgument = (object(), None, None)
"""For an argument that cannot be traced, such as parts of unequal shapes."""

NUMBERS = (int, float, complex)


def are_flat(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Returns whether no argument is a structure, by their types."""
    return not kwargs and _FLAT.issuperset(map(type, args))


@functools.cache
def flat_structure(count: int) -> Any:
    """Returns the structure of this many arguments that have none inside."""
    return trees.flatten((tuple(range(count)), {}))[1]


_FLAT = {ArrayImpl, np.ndarray, PerReplica, LocalPerReplica, *NUMBERS}


def keyed_arguments(
    leaves: Sequence[Any], topology: Topology | None
) -> list[KeyedArgument]:
    """Returns arguments with their cache keys and arrays.

    Args:
        leaves: The arguments.
        topology: The devices of the program, if it is the `run` of a strategy.
    """
    return [_keyed(leaf, topology) for leaf in leaves]


def _keyed(leaf: Any, topology: Topology | None) -> KeyedArgument:
    if isinstance(leaf, PerReplica):
        layout = leaf.layout
        if isinstance(layout, Parts):
            return _keyed_parts(leaf, layout, topology)
        assert isinstance(layout, Joined | Replicated)
        return keyed_layout(layout)
    if isinstance(leaf, np.ndarray | np.generic):
        if leaf.dtype.kind in "OUS":
            raise TypeError(
                "Arrays of strings or objects cannot be inputs of a compiled function. "
                f"Received: an array of dtype {leaf.dtype}."
            )
        dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
        return (leaf.shape, dtype, False), leaf, PLAIN
    if type(leaf) in NUMBERS:
        return ("number", type(leaf)), leaf, PLAIN
    if isinstance(leaf, jax.Array):
        key = (leaf.shape, leaf.dtype, leaf.aval.weak_type)
        cut = ShardLayout.of_array(leaf, topology)
        if cut is None:
            is_of_other_replicas = ShardLayout.of_array(leaf) is not None
            return key, np.asarray(leaf) if is_of_other_replicas else leaf, PLAIN
        return (*key, leaf.sharding), leaf, Placement("sharded", layout=cut)
    if isinstance(leaf, Mirrored):
        return (leaf.shape, leaf.dtype, "mirrored"), leaf.array, PLAIN
    if isinstance(leaf, NotTraceableLeaf):
        return NOT_TRACEABLE
    return static_key(leaf), None, None


def placement_of_argument(argument: KeyedArgument) -> Placement:
    """Returns how an input of the program lies on the devices."""
    _, _, layout = argument
    assert layout is not None
    return layout if isinstance(layout, Placement) else placement_of(layout)


def keyed_layout(layout: Joined | Replicated) -> KeyedArgument:
    """Returns the key of a per-replica value that is one array, and that array."""
    aval = layout.array.aval
    kind: Any = layout.topology
    if type(layout) is Joined:
        kind = (layout.is_scalar, layout.is_weak, layout.topology)
    return (aval.shape, aval.dtype, kind), layout.array, layout


def static_key(leaf: Any) -> Any:
    """Returns the cache key of a static argument."""
    kind: Any = type(leaf)
    # Unhashable objects, such as the `self` of a dataclass, are keys by identity. A set
    # is refused: each call makes a new one, and would retrace.
    is_unhashable = kind.__hash__ is None and kind.__module__ != "builtins"
    if trees.is_leaf(leaf) or is_unhashable:
        return IdentityKey(leaf)
    return kind, leaf


def _keyed_parts(
    value: PerReplica, layout: Parts, topology: Topology | None
) -> KeyedArgument:
    topology = topology or layout.topology or _find_topology(layout.parts)
    if topology is None or not all(is_array_like(part) for part in layout.parts):
        return IdentityKey(value), None, None
    parts = as_arrays(layout.parts)
    kinds = layout.shapes or [shape_dtype_of(part) for part in parts]
    if any(kind != kinds[0] for kind in kinds):
        return NOT_TRACEABLE
    is_weak = all(part.aval.weak_type for part in parts)
    joined = Joined(
        join_parts(tuple(parts), topology), parts[0].ndim == 0, topology, is_weak
    )
    if not is_weak:
        # Cached, because the same batch is often given to several functions.
        value.layout = joined
    return keyed_layout(joined)


def stand_in_of(argument: KeyedArgument) -> Any:
    """Returns what to trace with in place of an argument."""
    _, array, _ = argument
    return array if type(array) in NUMBERS else stand_in(array)


def topology_of_workers(leaves: Sequence[Any]) -> Topology | None:
    """Returns the devices of all workers that per-replica values belong to, if any."""
    for leaf in leaves:
        if isinstance(leaf, PerReplica):
            topology = getattr(leaf.layout, "topology", None)
            if topology is not None and not topology.is_local:
                return topology  # type: ignore[no-any-return]
    return None


def _find_topology(parts: Sequence[Any]) -> Topology | None:
    """Returns the devices of the current strategy, or those that parts lie on."""
    frame = stack.frame()
    if frame is not None and len(frame.strategy.topology.local_devices) == len(parts):
        topology: Topology = frame.strategy.topology
        return topology
    if not all(isinstance(p, jax.Array) and len(p.devices()) == 1 for p in parts):
        return None
    devices = tuple(next(iter(part.devices())) for part in parts)
    if len(set(devices)) < len(devices):
        return None
    return Topology(devices)


def jit_key(array: Any) -> Any:
    """Returns what `jit` dispatches on, beside shape and dtype."""
    is_array = isinstance(array, jax.Array)
    return (array.sharding, array.committed) if is_array else type(array)


def refuse_foreign_parts(arrays: Iterable[Any], cause: Exception) -> None:
    """Raises for the first array that is sharded, but not over the replicas.

    Args:
        arrays: Inputs that a program over several replicas takes whole.
        cause: JAX's error.
    """
    for array in arrays:
        if isinstance(array, ArrayImpl) and not array.sharding.is_fully_replicated:
            raise ValueError(
                "A compiled function on several replicas takes arrays that are whole, "
                "or that `strategy.shard` has cut. Received: an array of shape "
                f"{array.shape} and {array.sharding}. Give `strategy.shard(array)` to "
                "keep it in parts, or `numpy.asarray(array)`."
            ) from cause
