"""The strategy in force where none was chosen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from typing_extensions import override

from mirrax.collectives.all_reduce import AllReduce
from mirrax.devices.logical import default_devices
from mirrax.devices.topology import Topology
from mirrax.input.context import InputContext, InputOptions
from mirrax.run.meeting import Alone
from mirrax.run.replica_context import ReplicaContext
from mirrax.strategy.creators import leave
from mirrax.strategy.extended import StrategyExtended
from mirrax.strategy.strategy import Strategy
from mirrax.trees import Tree
from mirrax.variables.distributed import DistributedVariable
from mirrax.variables.variable import Variable


class DefaultStrategy(Strategy):
    """One replica on JAX' default device, without any change to ordinary code."""

    def __init__(self) -> None:
        device = default_devices()[0]
        topology = Topology((device,), jax.process_index())
        super().__init__(topology, AllReduce(), leave)
        self.replica_context = ReplicaContext(self, Alone(self))

    @property
    @override
    def extended(self) -> StrategyExtended:
        return _DefaultExtended(self, self._collective)

    @override
    def experimental_distribute_dataset(
        self, dataset: Any, options: InputOptions | None = None
    ) -> Any:
        return dataset

    @override
    def distribute_datasets_from_function(
        self,
        dataset_fn: Callable[[InputContext], Any],
        options: InputOptions | None = None,
    ) -> Any:
        return dataset_fn(InputContext())

    @override
    def _wrap_parts(self, parts: list[Any]) -> Tree:
        return parts[0]


class _DefaultExtended(StrategyExtended):
    """A plain variable belongs to the default strategy if it belongs to no other."""

    @override
    def variable_created_in_scope(self, v: Any) -> bool:
        is_plain = not isinstance(v, DistributedVariable)
        return isinstance(v, Variable) and is_plain and v.owner is None


@functools.cache
def default_strategy() -> DefaultStrategy:
    """Returns the one default strategy of this process."""
    return DefaultStrategy()
