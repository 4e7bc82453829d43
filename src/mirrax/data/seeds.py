"""Seeds of a plan: those of nodes whose order is random, also if none was given."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from mirrax.data.plan import Node, rewritten


class Seeded:
    """A node whose elements depend on its field `seed`."""

    seed: int


def seeds_of(plan: Node) -> list[int]:
    """Returns the seeds of a plan, those of inputs first."""
    inner = [seed for node in plan.inputs for seed in seeds_of(node)]
    return [*inner, plan.seed] if isinstance(plan, Seeded) else inner


def with_seeds(plan: Node, seeds: Sequence[int]) -> Node:
    """Returns a plan with these seeds, given as `seeds_of` gives them."""
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
        changed: Any = node
        is_seeded = isinstance(node, Seeded)
        return dataclasses.replace(changed, seed=next(given)) if is_seeded else node

    return rewritten(plan, seed)
