"""How inputs and outputs of a program lie on devices, and what users get."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from mirrax import trees
from mirrax._jax.arrays import shards, uncommitted
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.run.compiled.replica_trace import join_traced
from mirrax.run.compiled.tracing import refuse_hidden_tracers
from mirrax.trees import Tree
from mirrax.values.array_like import as_array, as_arrays, is_array_like
from mirrax.values.layouts import Joined, Layout, Parts, Replicated
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica, per_replica
from mirrax.variables.variable import Variable


@dataclasses.dataclass(frozen=True)
class Placement:
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
        return per_replica(Replicated(array, self.topology), self.topology)


PLAIN = Placement("plain")


def placement_of(layout: Layout) -> Placement:
    """Returns the form of a per-replica value that is one array."""
    if isinstance(layout, Joined):
        return Placement("joined", layout.topology, layout.is_scalar, layout.is_weak)
    assert isinstance(layout, Replicated)
    return Placement("alike", layout.topology)


def split_outputs(result: Tree) -> tuple[list[jax.Array], tuple[Any, ...]]:
    """Returns the arrays in a function's result, and how to put it together again."""
    leaves, structure = trees.flatten(result)
    split = [_output(leaf) for leaf in leaves]
    arrays = as_arrays([value for value, form in split if form is not None])
    placements = [form for _, form in split]
    rest = [value if form is None else None for value, form in split]
    return arrays, (structure, placements, rest)


def _output(leaf: Any) -> tuple[Any, Placement | None]:
    match leaf:
        case Variable():
            return leaf, None
        case Mirrored():
            return leaf.array, Placement("mirrored")
        case PerReplica(layout=Parts(held=parts)):
            if not all(is_array_like(as_array(part)) for part in parts):
                return leaf, None
            topology = only_topology(stack.overlay().topologies)
            if topology is None:
                return leaf, None
            layout = join_traced(as_arrays(parts), topology)
            return layout.array, placement_of(layout)
        case PerReplica(layout=layout):
            assert isinstance(layout, Joined | Replicated)
            if not isinstance(layout.array, jax.core.Tracer):
                # From outside: it lies where it lies.
                return leaf, None
            return layout.array, placement_of(layout)
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


class ResultBuilder:
    """Builds what the user gets from the arrays that a program returns.

    Args:
        structure: How it is nested.
        placements: How each array in it lies on the devices; None for what is no array.
        rest: The leaves, where they are no arrays.
        is_over_many: Whether the program runs on several devices.
    """

    def __init__(
        self,
        structure: Any,
        placements: Sequence[Placement | None],
        rest: Sequence[Any],
        is_over_many: bool,
    ) -> None:
        self._unflatten = structure.unflatten
        self._rest = rest
        self._wrappers: list[Any] = [
            None if form is None else _wrapper_of(form, is_over_many)
            for form in placements
        ]
        self.num_arrays = sum(form is not None for form in placements)
        self._are_bare = all(
            form is not None and form.topology is None and present == form.wrap
            for form, present in zip(placements, self._wrappers, strict=True)
        )
        is_leaf = structure == trees.flatten(0)[1]
        self._is_one_array = is_leaf and placements[0] is not None

    def __call__(self, arrays: Sequence[jax.Array]) -> Tree:
        """Returns what the user gets for these arrays."""
        if self._is_one_array:
            return self._wrappers[0](arrays[0])
        if self._are_bare:
            return self._unflatten(arrays)
        given = iter(arrays)
        leaves = [
            rest if present is None else present(next(given))
            for present, rest in zip(self._wrappers, self._rest, strict=True)
        ]
        return self._unflatten(leaves)


def _wrapper_of(form: Placement, is_over_many: bool) -> Callable[[jax.Array], Any]:
    """Returns what makes an array that a program returns what the user gets."""
    if form.kind == "plain" and is_over_many:
        return lambda array: uncommitted(shards(array)[0])
    if form.topology is not None and len(form.topology.local_devices) == 1:
        # As an eager `run` gives it to a worker with one replica.
        return lambda array: form.wrap(array).values[0]
    return form.wrap
