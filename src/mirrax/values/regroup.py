"""Merges one result per replica into one structure, and splits it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import jax

from mirrax import trees
from mirrax._jax.arrays import shards, uncommitted
from mirrax._jax.traces import is_eager, is_staging
from mirrax.context import stack
from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import Topology
from mirrax.trees import Tree
from mirrax.values.distributed_values import DistributedValues
from mirrax.values.layouts import Parts, Spmd, require_parts
from mirrax.values.per_replica import PerReplica

_PLAIN = (bool, int, float, complex, str, bytes)


def regroup(results: Sequence[Tree], topology: Topology | None = None) -> Tree:
    """Returns the results of all local replicas as one structure.

    A leaf that is the same object, or an equal plain value, on every replica is
    returned unwrapped; others become `PerReplica`. One replica wraps nothing.
    """
    if len(results) == 1:
        return results[0]
    if all(result is results[0] for result in results[1:]):
        return results[0]
    structure, columns = columns_of(results)
    return jax.tree.unflatten(
        structure, [merge(column, topology) for column in columns]
    )


def columns_of(results: Sequence[Tree]) -> tuple[Any, list[tuple[Any, ...]]]:
    """Returns the structure of the results of all local replicas, and its leaves.

    Each leaf is a tuple with those of the replicas.
    """
    # None is a leaf here: one replica may return it where another returns a value.
    flat = [
        jax.tree.flatten(result, is_leaf=lambda x: x is None or trees.is_leaf(x))
        for result in results
    ]
    structure: Any = flat[0][1]
    for index, (_, other) in enumerate(flat):
        if other != structure:
            # TensorFlow raises an AssertionError here.
            raise AssertionError(
                "Every replica must return the same structure. Received: replica 0 "
                f"returned {structure}, replica {index} returned {other}. Return the "
                "same keys and lengths on all; use None for missing values."
            )
    return structure, list(zip(*(leaves for leaves, _ in flat), strict=True))


def select(tree: Tree, index: int) -> Tree:
    """Returns `tree` with each distributed value replaced by its part `index`."""

    def part(leaf: Any) -> Any:
        return leaf.for_replica(index) if isinstance(leaf, DistributedValues) else leaf

    return trees.map_leaves(part, tree)


def local_results(value: Any, topology: Topology) -> tuple[Any, ...]:
    """Returns the parts of `value` on this process; `(value,)` if it has none."""
    if isinstance(value, PerReplica) and not topology.is_local:
        array = getattr(value.layout, "array", None)
        is_traced = isinstance(array, jax.core.Tracer)
        if is_traced:  # A program is the same on all workers, and their parts differ.
            raise NotTraceable
    if isinstance(value, DistributedValues):
        return value.values
    if is_mirrored_array(value, topology):
        return tuple(uncommitted(s) for s in shards(value))
    return (value,)


def refuse_captured(value: PerReplica, topology: Topology) -> None:
    """Raises if a trace has not all parts of a value that it would combine.

    One trace serves all workers, and inside a replica all replicas, so the parts of a
    captured value cannot be its constants. Parts made inside a trace are those of this
    worker only.

    Args:
        topology: The devices that it is combined on.
    """
    layout = value.layout
    if is_eager() or isinstance(layout, Spmd):
        return
    held = layout.parts if isinstance(layout, Parts) else (layout.array,)
    is_traced = any(isinstance(array, jax.core.Tracer) for array in held)
    if is_program_traced():
        is_complete = topology.is_local or not isinstance(layout, Parts)
        is_for_one = topology.is_local and not stack.overlay().inside_replica
        if not is_for_one and not (is_traced and is_complete):
            raise NotTraceable
    elif not topology.is_local and (
        is_staging() or (is_traced and isinstance(layout, Parts))
    ):
        leave_to_python()


def leave_to_python() -> NoReturn:
    """Raises `NotTraceable` in a traced function; elsewhere an error for the user."""
    if is_program_traced():
        raise NotTraceable
    raise RuntimeError(
        "Inside a JAX transformation (jit, grad, vmap, ...) only a `@mirrax.function` "
        "knows the parts of other workers, or takes parts of different shapes. "
        "Received: such a value in `run`, `reduce` or `gather`, inside a "
        "transformation. Give the value as an argument to a `@mirrax.function`, and "
        "use `mirrax.value_and_grad` inside of it."
    )


def is_program_traced() -> bool:
    """Returns whether a whole program is traced here, not only a derivative."""
    return stack.overlay() is not None and is_staging()


def parts_of(leaf: Any, topology: Topology) -> Sequence[Any]:
    """Returns what each local replica gets of `leaf`."""
    if isinstance(leaf, PerReplica):
        require_parts(leaf.values, topology)
    if isinstance(leaf, DistributedValues):
        return [leaf.for_replica(i) for i in range(len(topology.local_devices))]
    if is_mirrored_array(leaf, topology):
        return local_results(leaf, topology)
    return (leaf,) * len(topology.local_devices)


def is_mirrored_array(value: object, topology: Topology) -> bool:
    """Returns whether `value` is an array replicated over several replicas."""
    return (
        isinstance(value, jax.Array)
        and not isinstance(value, jax.core.Tracer)
        and not topology.is_single
        and value.sharding == topology.replicated
    )


def merge(parts: Sequence[Any], topology: Topology | None = None) -> Any:
    """Returns one leaf of all replicas: unwrapped if equal, else `PerReplica`."""
    first = parts[0]
    if all(part is first for part in parts[1:]):
        return first
    if type(first) in _PLAIN and all(
        type(part) is type(first) and part == first for part in parts[1:]
    ):
        return first
    return PerReplica(Parts(tuple(parts), topology))
