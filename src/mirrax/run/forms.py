"""How the arrays that a program takes and returns lie on the devices."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from mirrax import trees
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.run.hidden import refuse_hidden_tracers
from mirrax.run.spmd import join_traced
from mirrax.trees import Tree
from mirrax.values.array_like import as_array, as_arrays, is_array_like
from mirrax.values.layouts import Alike, Joined, Layout, Parts
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica, per_replica
from mirrax.variables.variable import Variable


@dataclasses.dataclass(frozen=True)
class Form:
    """How one array of a program's inputs or outputs lies on the devices.

    Args:
        kind: "plain", "mirrored", "alike" (a `PerReplica` of equal parts) or "joined"
            (a `PerReplica` of any parts).
        topology: The devices, of all kinds but "plain".
        is_scalar: Whether the parts of a joined array are scalars.
        is_weak: Whether they are Python numbers.
    """

    kind: str
    topology: Topology | None = None
    is_scalar: bool = False
    is_weak: bool = False

    def wrap(self, array: jax.Array) -> Any:
        """Returns the value that the user sees for `array`."""
        if self.topology is None:
            return array
        if self.kind == "joined":
            layout = Joined(array, self.is_scalar, self.topology, self.is_weak)
            return per_replica(layout, self.topology)
        return per_replica(Alike(array, self.topology), self.topology)


PLAIN = Form("plain")


def form_of(layout: Layout) -> Form:
    """Returns the form of a per-replica value that is one array."""
    if isinstance(layout, Joined):
        return Form("joined", layout.topology, layout.is_scalar, layout.is_weak)
    assert isinstance(layout, Alike)
    return Form("alike", layout.topology)


def split_outputs(result: Tree) -> tuple[list[jax.Array], tuple[Any, ...]]:
    """Returns the arrays in a function's result, and how to put it together again."""
    leaves, structure = trees.flatten(result)
    split = [_output(leaf) for leaf in leaves]
    arrays = as_arrays([value for value, form in split if form is not None])
    forms = [form for _, form in split]
    rest = [value if form is None else None for value, form in split]
    return arrays, (structure, forms, rest)


def _output(leaf: Any) -> tuple[Any, Form | None]:
    match leaf:
        case Variable():
            return leaf, None
        case Mirrored():
            return leaf.array, Form("mirrored")
        case PerReplica(layout=Parts(held=parts)):
            if not all(is_array_like(as_array(part)) for part in parts):
                return leaf, None
            topology = only_topology(stack.overlay().topologies)
            if topology is None:
                return leaf, None
            layout = join_traced(as_arrays(parts), topology)
            return layout.array, form_of(layout)
        case PerReplica(layout=layout):
            assert isinstance(layout, Joined | Alike)
            if not isinstance(layout.array, jax.core.Tracer):
                # From outside: it lies where it lies.
                return leaf, None
            return layout.array, form_of(layout)
        case bool() | int() | float() | complex() | np.ndarray() | np.generic():
            return leaf, PLAIN
        case jax.Array():
            return leaf, PLAIN
        case _:
            refuse_hidden_tracers(leaf)
            return leaf, None


def only_topology(topologies: set[Topology]) -> Topology | None:
    """Returns the devices that a program runs on."""
    many = {topology for topology in topologies if not topology.is_single}
    if len(many) > 1:
        raise ValueError(
            "One function can use the devices of one strategy. Received: variables or "
            "values on "
            + " and on ".join(str(list(topology.names)) for topology in many)
            + ". Split the function, or use one strategy."
        )
    return next(iter(many or topologies), None)
