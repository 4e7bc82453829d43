"""`TowerContext`, and functions that return the current tower or strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirrax
from mirrax.tf.contrib.distribute.distribution import DistributionStrategy


class TowerContext:
    """The context of one tower in `call_for_each_tower`: `tf.get_tower_context()`."""

    def __init__(self, context: mirrax.ReplicaContext) -> None:
        self._context = context

    @property
    def distribution_strategy(self) -> DistributionStrategy:
        return DistributionStrategy.of(self._context.strategy)

    @property
    def tower_id(self) -> Any:
        return self._context.replica_id_in_sync_group

    @property
    def num_towers(self) -> int:
        return self._context.num_replicas_in_sync

    @property
    def is_single_tower(self) -> bool:
        return self.num_towers == 1

    @property
    def device(self) -> str:
        return self.distribution_strategy.worker_devices[int(self.tower_id)]

    def merge_call(
        self, merge_fn: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Runs `merge_fn(distribution, *args, **kwargs)` once, for all towers."""

        def merge(strategy: mirrax.Strategy, *merged: Any, **named: Any) -> Any:
            return merge_fn(DistributionStrategy.of(strategy), *merged, **named)

        return self._context.merge_call(merge, args, kwargs)


def get_tower_context() -> TowerContext | None:
    """Returns the context of the current tower; None in cross-tower context."""
    context = mirrax.get_replica_context()
    return None if context is None else TowerContext(context)


def get_cross_tower_context() -> DistributionStrategy | None:
    """Returns the current strategy in cross-tower context, else None."""
    return get_distribution_strategy() if in_cross_tower_context() else None


def get_distribution_strategy() -> DistributionStrategy:
    return DistributionStrategy.of(mirrax.get_strategy())


has_distribution_strategy = mirrax.has_strategy
in_cross_tower_context = mirrax.in_cross_replica_context
