"""Warns if state that was equal on all replicas comes back different on each."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import jax

from mirrax import trees, user_frames
from mirrax.trees import Tree
from mirrax.values.per_replica import PerReplica


class StateDrift:
    """What one call of a function on replicas got and returned."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._structure: Any = None
        self._equal: dict[int, tuple[Any, Any]] = {}
        self._results: list[weakref.ref[PerReplica]] = []

    def check(self, leaves: Sequence[Any], structure: Any) -> None:
        """Warns if results that differ take the place of equal arguments."""
        if not self._equal or structure != self._structure:
            return
        results = {id(result()) for result in self._results}
        for index, kind in self._equal.items():
            leaf = leaves[index]
            if id(leaf) in results and _kind_of(leaf.values[0]) == kind:
                self._equal = {}
                self._warn(structure, index)
                break

    def note(self, leaves: Sequence[Any], structure: Any, result: Tree) -> None:
        found = [x for x in trees.leaves(result) if isinstance(x, PerReplica)]
        self._results = [*map(weakref.ref, found)]
        self._structure = structure
        self._equal = {}
        if any(isinstance(leaf, PerReplica) for leaf in leaves):
            # A scalar may be a sum that each replica begins with 0.
            self._equal = {
                index: _kind_of(leaf)
                for index, leaf in enumerate(leaves)
                if not isinstance(leaf, PerReplica) and getattr(leaf, "ndim", 0) > 0
            }

    def _warn(self, structure: Any, index: int) -> None:
        numbered = trees.unflatten(structure, range(structure.num_leaves))
        paths, _ = jax.tree_util.tree_flatten_with_path(numbered)
        path, _ = next(pair for pair in paths if pair[1] == index)
        kind = "kwargs" if path[0].idx else "args"
        user_frames.warn(
            "State that goes into a step and comes out of it should be equal on all "
            f"replicas. Received: `{kind}{jax.tree_util.keystr(path[1:])}` of "
            f"'{self._name}', which was equal in its call before, and now is a result "
            "that differs between replicas. Combine what comes from a replica's batch "
            "before it changes the state: `get_replica_context().all_reduce('SUM', "
            "gradients)`. If each replica is to have a state of its own, start with a "
            "`PerReplica` of `strategy.experimental_distribute_values_from_function`."
        )


def _kind_of(array: Any) -> tuple[Any, Any]:
    return array.shape, array.dtype
