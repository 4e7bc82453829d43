"""How a compiled function takes its arguments: as inputs, or as part of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mirrax import trees
from mirrax.collectives.agreement import kind_of
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.run.forms import PLAIN, form_of
from mirrax.trees import Same
from mirrax.values.array_like import as_arrays, is_array_like
from mirrax.values.driving import Driving
from mirrax.values.layouts import Alike, Joined, Parts, join
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica


class Slot:
    """One argument of a function: its key, its array, and the form of it.

    An argument that is no input of the program has no form.
    """

    __slots__ = ("array", "form", "key")

    def __init__(self, key: Any, array: Any = None, form: Any = None) -> None:
        self.key = key
        self.array = array
        self.form = form


DRIVEN = Slot(None)
"""For an argument that only Python can handle, such as parts of unequal shapes."""

NUMBERS = (int, float, complex)


def slot_of(leaf: Any, static_numbers: bool, topology: Topology | None) -> Slot:
    """Returns how a program takes one argument.

    Args:
        leaf: The argument.
        static_numbers: Whether Python numbers are part of the program.
        topology: The devices of the program, if it is the `run` of a strategy.
    """
    if isinstance(leaf, jax.Array):
        return Slot((leaf.shape, leaf.dtype, leaf.aval.weak_type), leaf, PLAIN)
    if isinstance(leaf, np.ndarray | np.generic):
        if leaf.dtype.kind in "OUS":
            raise TypeError(
                "Arrays of strings or objects cannot be inputs of a compiled function. "
                f"Received: an array of dtype {leaf.dtype}."
            )
        dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
        return Slot((leaf.shape, dtype, False), leaf, PLAIN)
    if type(leaf) in NUMBERS:
        if static_numbers:
            return Slot(("number", type(leaf), leaf))
        return Slot(("number", type(leaf)), leaf, PLAIN)
    if isinstance(leaf, Mirrored):
        return Slot((leaf.shape, leaf.dtype, "mirrored"), leaf.array, PLAIN)
    if isinstance(leaf, PerReplica):
        return _per_replica_slot(leaf, topology)
    if isinstance(leaf, Driving):
        return DRIVEN
    return Slot(static_key(leaf))


def static_key(leaf: Any) -> Any:
    """Returns the key of an argument that is part of the program."""
    kind: Any = type(leaf)
    # An object without a hash, such as the `self` of a dataclass, is only itself. A set
    # is refused: it is made anew for each call, and would be traced anew.
    is_unhashable = kind.__hash__ is None and kind.__module__ != "builtins"
    if trees.is_leaf(leaf) or is_unhashable:
        return Same(leaf)
    return kind, leaf


def _per_replica_slot(value: PerReplica, topology: Topology | None) -> Slot:
    layout = value.layout
    if isinstance(layout, Parts):
        topology = topology or layout.topology or _find_topology(layout.held)
        if topology is None or not all(is_array_like(part) for part in layout.held):
            return Slot(Same(value))
        parts = as_arrays(layout.held)
        kinds = layout.kinds or [kind_of(part) for part in parts]
        if any(kind != kinds[0] for kind in kinds):
            return DRIVEN
        is_weak = all(part.aval.weak_type for part in parts)
        joined = join(tuple(parts), topology)
        layout = Joined(joined, parts[0].ndim == 0, topology, is_weak)
        if not is_weak:
            # Kept, because the same batch is often given to several functions.
            value.layout = layout
    assert isinstance(layout, Joined | Alike)
    form = form_of(layout)
    return Slot((layout.array.shape, layout.array.dtype, form), layout.array, form)


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
