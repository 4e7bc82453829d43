"""The arguments of a compiled call: inputs of its program, or static."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from mirrax import trees
from mirrax._jax.arrays import ArrayImpl
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.collectives.worker_exchange import shape_dtype_of
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.run.compiled.donated_arguments import refuse_donated
from mirrax.run.compiled.placement import (
    PLAIN,
    Placement,
    joined_parts,
    padded_parts,
    placement_of,
)
from mirrax.trees import IdentityKey, NotTraceableLeaf
from mirrax.values.array_like import as_arrays, is_array, is_array_like
from mirrax.values.layouts import Joined, Parts, Replicated, join_parts
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import refuse_captured

NUMBERS = (int, float, complex)


class Argument(NamedTuple):
    """One leaf of the arguments of a call.

    Args:
        value: The input of the program; or a static argument, which is part of it.
        placement: How the input lies on the devices; None for a static argument.
    """

    value: Any
    placement: Placement | None = None
    key: Any = None

    @property
    def stand_in(self) -> Any:
        """What to trace with in place of an input."""
        value = self.value
        if type(value) in NUMBERS:
            return value
        if isinstance(value, jax.Array):
            weak = bool(value.aval.weak_type)
            return jax.ShapeDtypeStruct(value.shape, value.dtype, weak_type=weak)
        dtype = jax.dtypes.canonicalize_dtype(value.dtype)
        return jax.ShapeDtypeStruct(value.shape, dtype)


NOT_TRACEABLE = Argument(None, key=object())
"""For an argument that cannot be traced, such as parts of unequal shapes."""


@dataclasses.dataclass(frozen=True)
class CallArguments:
    """The arguments of a call.

    Args:
        structure: How they are nested in positional and keyword arguments.
    """

    arguments: Sequence[Argument]
    structure: Any

    @property
    def are_traceable(self) -> bool:
        """Whether none of them rules out a single program."""
        return not any(each is NOT_TRACEABLE for each in self.arguments)

    @property
    def keys(self) -> tuple[Any, ...]:
        return tuple([argument.key for argument in self.arguments])

    @property
    def inputs(self) -> list[Argument]:
        return [each for each in self.arguments if each.placement is not None]

    @property
    def arrays(self) -> list[Any]:
        return [each.value for each in self.inputs]

    @property
    def stand_ins(self) -> list[Any]:
        """What to trace with in place of the inputs."""
        return [each.stand_in for each in self.inputs]

    @property
    def placements(self) -> list[Placement]:
        """How the inputs lie on the devices."""
        found = [each.placement for each in self.arguments]
        return [placement for placement in found if placement is not None]

    def of_inputs(self, values: Sequence[Any]) -> list[Any]:
        """Returns those of `values`, one for each argument, that belong to inputs."""
        pairs = zip(values, self.arguments, strict=True)
        return [value for value, each in pairs if each.placement is not None]

    def filled(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments and keywords with `values` in place of the inputs."""
        given = iter(values)
        leaves = [
            each.value if each.placement is None else next(given)
            for each in self.arguments
        ]
        args, kwargs = trees.unflatten(self.structure, leaves)
        return args, kwargs


def keyed_argument(leaf: Any, topology: Topology | None) -> Argument:
    """Returns an argument of a program, with its cache key.

    Args:
        topology: The devices of the program, if it is the `run` of a strategy.
    """
    if isinstance(leaf, PerReplica):
        layout = leaf.layout
        if isinstance(layout, Parts):
            return _keyed_parts(leaf, layout, topology)
        assert isinstance(layout, Joined | Replicated)
        return Argument(layout.array, placement_of(layout), layout_key(layout))
    if isinstance(leaf, np.ndarray | np.generic):
        if leaf.dtype.kind in "OUS":
            raise TypeError(
                "Arrays of strings or objects cannot be inputs of a compiled function. "
                f"Received: an array of dtype {leaf.dtype}."
            )
        dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
        return Argument(leaf, PLAIN, (leaf.shape, dtype, False))
    if type(leaf) in NUMBERS:
        return Argument(leaf, PLAIN, ("number", type(leaf)))
    if isinstance(leaf, jax.Array):
        key = (leaf.shape, leaf.dtype, leaf.aval.weak_type)
        cut = ShardLayout.of_array(leaf, topology)
        if cut is None:
            is_of_other_replicas = ShardLayout.of_array(leaf) is not None
            value = np.asarray(leaf) if is_of_other_replicas else leaf
            return Argument(value, PLAIN, key)
        placement = Placement("mirrored", layout=cut)
        return Argument(leaf, placement, (*key, leaf.sharding))
    if isinstance(leaf, Mirrored):
        return Argument(leaf.array, PLAIN, (leaf.shape, leaf.dtype, "mirrored"))
    if isinstance(leaf, NotTraceableLeaf):
        return NOT_TRACEABLE
    return Argument(leaf, key=static_key(leaf))


def layout_key(layout: Joined | Replicated) -> Any:
    """Returns the cache key of a per-replica value that is one array."""
    aval = layout.array.aval
    kind: Any = layout.topology
    if type(layout) is Joined:
        kind = (layout.is_scalar, layout.is_weak, layout.topology)
    return aval.shape, aval.dtype, kind


def static_key(leaf: Any) -> Any:
    """Returns the cache key of a static argument."""
    kind: Any = type(leaf)
    # Unhashable objects, such as the `self` of a dataclass, are keys by identity. A set
    # is refused: each call makes a new one, and would retrace.
    is_unhashable = kind.__hash__ is None and kind.__module__ != "builtins"
    if trees.is_leaf(leaf) or is_unhashable:
        return IdentityKey(leaf)
    return kind, leaf


def _keyed_parts(value: PerReplica, layout: Parts, of_run: Topology | None) -> Argument:
    topology = of_run or layout.topology or _find_topology(layout.parts)
    if topology is None or not all(is_array_like(part) for part in layout.parts):
        return Argument(value, key=IdentityKey(value))
    parts = as_arrays(layout.parts)
    kinds = layout.shapes or tuple(map(shape_dtype_of, parts))
    if any(kind != kinds[0] for kind in kinds):
        refuse_donated(parts)
        # A function around `run` runs as Python, and calls it with these parts.
        padded = padded_parts(parts, kinds, of_run) if of_run else None
        if padded is None:
            return NOT_TRACEABLE
        whole, placement = padded
        return Argument(whole.array, placement, (kinds, of_run))
    is_weak = all(part.aval.weak_type for part in parts)
    joined = Joined(
        join_parts(tuple(parts), topology), parts[0].ndim == 0, topology, is_weak
    )
    if not is_weak:
        # Cached, because the same batch is often given to several functions.
        value.layout = joined
    return Argument(joined.array, placement_of(joined), layout_key(joined))


def traced_argument(leaf: Any, topology: Topology) -> Argument:
    """Returns an argument of a `run` inside a trace."""
    if isinstance(leaf, Mirrored):
        return Argument(leaf.array, PLAIN)
    if not isinstance(leaf, PerReplica):
        return Argument(leaf, PLAIN if is_array(leaf) else None)
    refuse_captured(leaf, topology)
    layout = leaf.layout
    if isinstance(layout, Replicated):
        return Argument(layout.array, PLAIN)
    if not isinstance(layout, Joined):
        parts = layout.parts
        if not is_array_like(parts[0]):
            return Argument(leaf)
        if topology.is_local and all(part is parts[0] for part in parts):
            return traced_argument(parts[0], topology)
        layout = joined_parts(parts, topology)
    return Argument(layout.array, placement_of(layout))


def same_object(leaf: Any) -> Any:
    """Returns what all replicas get for a static argument; raises if they differ."""
    if not isinstance(leaf, PerReplica):
        return leaf
    parts = leaf.layout.parts
    if any(part != parts[0] for part in parts):
        raise TypeError(
            "A function that is compiled once for all replicas can be given different "
            "numbers and arrays on each, but no other objects. Received: "
            f"{parts!r}. Use arrays, or call `strategy.run` with a plain function."
        )
    return parts[0]


def topology_of_workers(leaves: Sequence[Any]) -> Topology | None:
    """Returns the devices of all workers that per-replica values belong to, if any."""
    for leaf in leaves:
        if isinstance(leaf, PerReplica):
            topology = getattr(leaf.layout, "topology", None)
            if topology is not None and not topology.is_local:
                return topology
    return None


def _find_topology(parts: Sequence[Any]) -> Topology | None:
    """Returns the devices of the current strategy, or those that parts lie on."""
    frame = stack.frame()
    if frame is not None and len(frame.strategy.topology.local_devices) == len(parts):
        return frame.strategy.topology
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
    """Raises for the first array that is sharded, but not over the replicas."""
    for array in arrays:
        if isinstance(array, ArrayImpl) and not array.sharding.is_fully_replicated:
            raise ValueError(
                "A compiled function on several replicas takes arrays that are whole, "
                "or that `strategy.shard` has cut. Received: an array of shape "
                f"{array.shape} and {array.sharding}. Give `strategy.shard(array)` to "
                "keep it in parts, or `numpy.asarray(array)`."
            ) from cause
