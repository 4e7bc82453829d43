"""The arguments of a compiled call: inputs or static, donated or kept."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax import trees
from mirrax._jax.arrays import ArrayImpl, donated_error
from mirrax.collectives.worker_exchange import shape_dtype_of
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.run.compiled.placement import PLAIN, Placement, placement_of
from mirrax.run.compiled.replica_trace import stand_in
from mirrax.trees import Driving, IdentityKey
from mirrax.values.array_like import as_arrays, is_array_like
from mirrax.values.layouts import Joined, Layout, Parts, Replicated, join_parts
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import LocalPerReplica, PerReplica
from mirrax.variables import aliasing

Slot = tuple[Any, Any, Layout | Placement | None]
"""One argument: its key, what is an input of the program, and the layout of that.

An argument that is part of the program has no layout.
"""

NOT_TRACEABLE: Slot = (object(), None, None)
"""For an argument that cannot be traced, such as parts of unequal shapes."""

NUMBERS = (int, float, complex)


def are_flat(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Returns whether arguments have no structure inside, judged by their types."""
    return not kwargs and _FLAT.issuperset(map(type, args))


@functools.cache
def flat_structure(count: int) -> Any:
    """Returns the structure of this many arguments that have none inside."""
    return trees.flatten((tuple(range(count)), {}))[1]


_FLAT = {ArrayImpl, np.ndarray, PerReplica, LocalPerReplica, *NUMBERS}


def slots_of(leaves: Sequence[Any], topology: Topology | None) -> list[Slot]:
    """Returns how a program takes its arguments.

    Args:
        leaves: The arguments.
        topology: The devices of the program, if it is the `run` of a strategy.
    """
    return [_slot_of(leaf, topology) for leaf in leaves]


def known_arrays(leaves: Sequence[Any], keys: Sequence[Any]) -> list[Any] | None:
    """Returns the arrays of arguments that have these keys; None if some have not.

    Only for the two most frequent kinds, and on a path that every call takes.
    """
    arrays = []
    for leaf, known in zip(leaves, keys, strict=True):
        if type(leaf) is PerReplica and type(leaf.layout) is Joined:
            key, array, _ = _slot_of_layout(leaf.layout)
        elif type(leaf) is ArrayImpl:
            aval, array = leaf.aval, leaf
            key = (aval.shape, aval.dtype, aval.weak_type)
        else:
            return None
        if key != known:
            return None
        arrays.append(array)
    return arrays


def _slot_of(leaf: Any, topology: Topology | None) -> Slot:
    if isinstance(leaf, PerReplica):
        layout = leaf.layout
        if isinstance(layout, Parts):
            return _slot_of_parts(leaf, layout, topology)
        assert isinstance(layout, Joined | Replicated)
        return _slot_of_layout(layout)
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
        return (leaf.shape, leaf.dtype, leaf.aval.weak_type), leaf, PLAIN
    if isinstance(leaf, Mirrored):
        return (leaf.shape, leaf.dtype, "mirrored"), leaf.array, PLAIN
    if isinstance(leaf, Driving):
        return NOT_TRACEABLE
    return static_key(leaf), None, None


def placement_of_slot(slot: Slot) -> Placement:
    """Returns the form of an input of the program."""
    _, _, layout = slot
    assert layout is not None
    return layout if isinstance(layout, Placement) else placement_of(layout)


def _slot_of_layout(layout: Joined | Replicated) -> Slot:
    aval = layout.array.aval
    kind: Any = layout.topology
    if type(layout) is Joined:
        kind = (layout.is_scalar, layout.is_weak, layout.topology)
    return (aval.shape, aval.dtype, kind), layout.array, layout


def static_key(leaf: Any) -> Any:
    """Returns the key of an argument that is part of the program."""
    kind: Any = type(leaf)
    # An object without a hash, such as the `self` of a dataclass, is only itself. A set
    # is refused: it is made anew for each call, and would be traced anew.
    is_unhashable = kind.__hash__ is None and kind.__module__ != "builtins"
    if trees.is_leaf(leaf) or is_unhashable:
        return IdentityKey(leaf)
    return kind, leaf


def _slot_of_parts(value: PerReplica, layout: Parts, topology: Topology | None) -> Slot:
    topology = topology or layout.topology or _find_topology(layout.held)
    if topology is None or not all(is_array_like(part) for part in layout.held):
        return IdentityKey(value), None, None
    parts = as_arrays(layout.held)
    kinds = layout.shapes or [shape_dtype_of(part) for part in parts]
    if any(kind != kinds[0] for kind in kinds):
        return NOT_TRACEABLE
    is_weak = all(part.aval.weak_type for part in parts)
    joined = Joined(
        join_parts(tuple(parts), topology), parts[0].ndim == 0, topology, is_weak
    )
    if not is_weak:
        # Kept, because the same batch is often given to several functions.
        value.layout = joined
    return _slot_of_layout(joined)


def stand_in_of(slot: Slot) -> Any:
    """Returns what to trace with instead of an argument."""
    _, array, _ = slot
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
    """Returns the devices that parts lie on, or belong on in the scope we are in."""
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


class Donation:
    """Which arguments of a function are donated.

    Args:
        name: The name of the function, for messages.
        argnums: The number of a positional argument, or several.
    """

    def __init__(self, name: str, argnums: Any) -> None:
        numbers = (argnums,) if isinstance(argnums, int) else argnums
        is_list = isinstance(numbers, tuple | list)
        if not is_list or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(
                "`donate_argnums` is the number of a positional argument, from 0, or a "
                f"tuple of them. Received: donate_argnums={argnums!r}."
            )
        self._name = name
        self.numbers = tuple(numbers)

    def flags(self, structure: Any, num_leaves: int) -> list[bool]:
        """Returns which leaves of the arguments of a call are donated."""
        if not self.numbers:
            return [False] * num_leaves
        args, _ = trees.unflatten(structure, list(range(num_leaves)))
        if max(self.numbers) >= len(args):
            raise ValueError(
                "`donate_argnums` counts the arguments that are given by position. "
                f"Received: donate_argnums={self.numbers} for a call of {self._name} "
                f"with {len(args)} of them. Give what is donated by position."
            )
        donated = {
            index for number in self.numbers for index in trees.leaves(args[number])
        }
        return [index in donated for index in range(num_leaves)]


def jit_key(array: Any) -> Any:
    """Returns what `jit` dispatches on, beside shape and dtype."""
    is_array = isinstance(array, jax.Array)
    return (array.sharding, array.committed) if is_array else type(array)


def refuse_donated(arrays: Iterable[Any]) -> None:
    """Raises if one of these was donated before; XLA would crash the process."""
    for array in arrays:
        is_deleted = getattr(array, "is_deleted", None)
        if is_deleted is not None and is_deleted():
            raise donated_error("such an array as an argument")


def copy_shared(donated: list[Any], kept: list[Any]) -> list[Any]:
    """Returns donated arguments, with a copy of each array that is shared.

    An array is shared if it is given twice, or if a variable uses its memory.
    """
    numbers = set(map(id, donated))
    if (
        # What nearly always is so, and is quickly seen of many arrays at once.
        len(numbers) == len(donated)
        and {ArrayImpl}.issuperset(map(type, donated))
        and numbers.isdisjoint(map(id, kept))
        and not aliasing.has_views(numbers)
    ):
        return donated
    seen = {id(array) for array in kept}
    owned = []
    for array in donated:
        is_shared = id(array) in seen or aliasing.is_view(array)
        seen.add(id(array))
        owned.append(jnp.copy(array) if is_shared else array)
    return owned
