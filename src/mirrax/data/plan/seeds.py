"""The seeds of a plan's random nodes, given or drawn."""

from __future__ import annotations

import dataclasses
import itertools
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from mirrax.data.plan.node import Node, rewrite


class Seeded:
    """A node whose elements depend on its field `seed`.

    `is_unseeded` says whether the user gave none.
    """

    seed: int
    is_unseeded: bool


def seeds_of(plan: Node) -> list[int]:
    """Returns the seeds of a plan, those of inputs first."""
    inner = [seed for node in plan.inputs for seed in seeds_of(node)]
    return [*inner, plan.seed] if isinstance(plan, Seeded) else inner


def with_seeds(plan: Node, seeds: Sequence[int]) -> Node:
    """Returns a plan with these seeds, in the order of `seeds_of`."""
    if list(seeds) == seeds_of(plan):
        return plan
    if not all(type(seed) is int for seed in seeds):
        raise TypeError(f"{seeds!r} are no seeds")
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


def random_for(*seed: int) -> np.random.Generator:
    """Returns a random generator that depends on these numbers alone."""
    words = [number % 2**64 for number in seed]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))


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
    return dataclasses.replace(node, seed=seed)
