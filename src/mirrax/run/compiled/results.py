"""What a traced function returns: the outputs of its program, and the rest."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from mirrax import trees
from mirrax._jax.arrays import shards, uncommitted
from mirrax._jax.traces import current_trace, is_traced_in
from mirrax.context import stack
from mirrax.run.compiled.placement import (
    PLAIN,
    Placement,
    joined_parts,
    only_topology,
    placement_of,
)
from mirrax.trees import Tree
from mirrax.values.array_like import as_array, as_arrays, is_array, is_array_like
from mirrax.values.layouts import Joined, Parts, Replicated
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import refuse_captured
from mirrax.variables.variable import Variable


@dataclasses.dataclass(frozen=True)
class Results:
    """How the results of a function are put together from the outputs of its program.

    Args:
        structure: How they are nested.
        placements: How each array among them lies on the devices; None for what is no
            array.
        rest: The leaves, where they are no arrays.
    """

    structure: Any
    placements: Sequence[Placement | None]
    rest: Sequence[Any]

    @property
    def of_outputs(self) -> list[Placement]:
        """How the outputs of the program lie on the devices."""
        return [placement for placement in self.placements if placement is not None]

    def placed(self, placements: Sequence[Placement]) -> Results:
        """Returns the same, with outputs that lie so on the devices."""
        given = iter(placements)
        new = [None if each is None else next(given) for each in self.placements]
        return dataclasses.replace(self, placements=new)

    def filled(self, outputs: Sequence[Any]) -> Tree:
        """Returns the results with these outputs, as they are."""
        given = iter(outputs)
        pairs = zip(self.placements, self.rest, strict=True)
        return trees.unflatten(
            self.structure, [x if each is None else next(given) for each, x in pairs]
        )

    def builder(self, is_over_many: bool) -> Callable[[Sequence[jax.Array]], Tree]:
        """Returns a function of the outputs that gives what the user gets.

        Args:
            is_over_many: Whether the program runs on several devices.
        """
        others = [(i, self.rest[i]) for i, p in enumerate(self.placements) if p is None]
        wrappers = [
            (index, wrap)
            for index, placement in enumerate(self.placements)
            if (wrap := _wrapper_of(placement, is_over_many)) is not None
        ]
        unflatten: Callable[[Sequence[Any]], Tree] = self.structure.unflatten
        if not others and not wrappers:
            return unflatten

        def build(arrays: Sequence[jax.Array]) -> Tree:
            leaves: list[Any] = list(arrays)
            for index, leaf in others:
                leaves.insert(index, leaf)
            for index, wrap in wrappers:
                leaves[index] = wrap(leaves[index])
            return unflatten(leaves)

        return build


def split_results(result: Tree) -> tuple[list[jax.Array], Results]:
    """Returns the arrays in a function's result, and how to put it together again."""
    return _split(result, _output)


def split_results_of_replica(result: Tree) -> tuple[list[jax.Array], Results]:
    """Does the same inside a replica, where numbers stay what they are."""
    return _split(result, _output_of_replica)


def _split(
    result: Tree, output: Callable[[Any], tuple[Any, Placement | None]]
) -> tuple[list[jax.Array], Results]:
    leaves, structure = trees.flatten(result)
    split = [output(leaf) for leaf in leaves]
    arrays = as_arrays([value for value, placement in split if placement is not None])
    placements = [placement for _, placement in split]
    rest = [value if placement is None else None for value, placement in split]
    return arrays, Results(structure, placements, rest)


def _output_of_replica(leaf: Any) -> tuple[Any, Placement | None]:
    leaf = leaf.array if isinstance(leaf, Mirrored) else leaf
    if is_array(leaf):
        return leaf, PLAIN
    _refuse_hidden_tracers(leaf)
    return leaf, None


def _output(leaf: Any) -> tuple[Any, Placement | None]:
    match leaf:
        case Variable():
            return leaf, None
        case Mirrored():
            return leaf.array, Placement("mirrored")
        case PerReplica(layout=Parts(parts=parts)):
            if not all(is_array_like(as_array(part)) for part in parts):
                return leaf, None
            topology = only_topology(stack.overlay().topologies)
            if topology is None:
                return leaf, None
            refuse_captured(leaf, topology)
            layout = joined_parts(parts, topology)
            return layout.array, placement_of(layout)
        case PerReplica(layout=layout):
            assert isinstance(layout, Joined | Replicated)
            if not isinstance(layout.array, jax.core.Tracer):
                # From outside of the trace: returned as it is.
                return leaf, None
            return layout.array, placement_of(layout)
        case bool() | int() | float() | complex() | np.ndarray() | np.generic():
            return leaf, PLAIN
        case jax.Array():
            return leaf, PLAIN
        case _:
            _refuse_hidden_tracers(leaf)
            return leaf, None


def _wrapper_of(
    placement: Placement | None, is_over_many: bool
) -> Callable[[jax.Array], Any] | None:
    """Returns what turns an output into what the user gets; None if it is the same."""
    if placement is None:
        return None
    topology = placement.topology
    if topology is None:
        is_copied = placement.kind == "plain" and is_over_many
        return _first_part if is_copied else None
    if len(topology.local_devices) == 1:
        # As an eager `run` gives it to a worker with one replica.
        return lambda array: placement.wrap(array).values[0]
    return placement.wrap


def _first_part(array: jax.Array) -> jax.Array:
    return uncommitted(shards(array)[0])


def _refuse_hidden_tracers(leaf: Any) -> None:
    """Raises if an attribute of `leaf`, which is no pytree, holds a traced value."""
    trace = current_trace()
    kind = type(leaf)
    slots = [getattr(each, "__slots__", ()) for each in kind.__mro__]
    for name in itertools.chain(getattr(leaf, "__dict__", ()), *map(_names, slots)):
        if any(is_traced_in(x, trace) for x in _leaves(getattr(leaf, name, None))):
            register = "Register the class with `jax.tree_util.register_pytree_node`"
            if dataclasses.is_dataclass(leaf):
                register = "Decorate the class with `@jax.tree_util.register_dataclass`"
            raise TypeError(
                "A compiled function returns arrays, plain objects, and containers "
                f"that JAX knows. Received: a {kind.__name__} with a traced value in "
                f"`{kind.__name__}.{name}`, which would stay a tracer. {register}, or "
                "return a tuple or a dict."
            )


def _names(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _leaves(value: Any) -> list[Any]:
    try:
        return jax.tree.leaves(value)
    except ValueError:  # The keys of a dict cannot be sorted.
        return [value]
