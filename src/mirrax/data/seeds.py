"""The seeds of a plan's random nodes, given or drawn."""

from __future__ import annotations

import abc
import dataclasses
import itertools
import secrets
from collections.abc import Sequence
from typing import Any

from mirrax.data.indices import random_for
from mirrax.data.node import Node, rewrite


class Seeded(abc.ABC):
    """A node whose elements depend on its field `seed`."""

    seed: int

    @property
    @abc.abstractmethod
    def is_unseeded(self) -> bool:
        """Whether the user gave no seed."""


def seeds_of(plan: Node) -> list[int]:
    """Returns the seeds of a plan, those of inputs first."""
    inner = [seed for node in plan.inputs for seed in seeds_of(node)]
    return [*inner, plan.seed] if isinstance(plan, Seeded) else inner


def with_seeds(plan: Node, seeds: Sequence[int]) -> Node:
    """Returns a plan with these seeds, in the order of `seeds_of`."""
    if list(seeds) == seeds_of(plan):
        return plan
    if len(seeds) != len(seeds_of(plan)):
        raise ValueError(
            "A position must be that of the same dataset. Received: a position with "
            f"{len(seeds)} seed(s), for a plan with {len(seeds_of(plan))}:\n"
            f"{plan.explain()}"
        )
    given = iter(seeds)

    def seed(node: Node) -> Node:
        return _seeded(node, next(given)) if isinstance(node, Seeded) else node

    return rewrite(plan, seed)


def random_seed() -> int:
    """Returns a random seed."""
    return secrets.randbits(31)


def seed_unseeded(plan: Node, key: tuple[int, ...]) -> Node:
    """Replaces seeds that the user did not give by seeds that depend on a key."""
    numbers = itertools.count()

    def seed(node: Node) -> Node:
        if not isinstance(node, Seeded) or not node.is_unseeded:
            return node
        return _seeded(node, int(random_for(*key, next(numbers)).integers(2**31)))

    return rewrite(plan, seed)


def _seeded(node: Any, seed: int) -> Node:
    changed: Node = dataclasses.replace(node, seed=seed)
    return changed
