"""The default strategy, outside every scope."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
from typing_extensions import override

from mirrax.collectives.all_reduce import XlaAllReduce
from mirrax.context import guards
from mirrax.devices.logical_devices import default_devices
from mirrax.devices.topology import Topology
from mirrax.lazy_modules import LazyModule
from mirrax.run.replica_context import ReplicaContext, SingleReplica
from mirrax.strategy.scope import create_plain
from mirrax.strategy.strategy import Strategy
from mirrax.trees import Tree
from mirrax.variables.distributed_variable import DistributedVariable
from mirrax.variables.variable import Variable

if TYPE_CHECKING:
    from mirrax.input import input_context
else:
    input_context = LazyModule("mirrax.input.input_context")


class DefaultStrategy(Strategy):
    """One replica on JAX's default device; changes nothing for ordinary code."""

    def __init__(self) -> None:
        device = default_devices()[0]
        topology = Topology((device,), jax.process_index())
        super().__init__(topology, XlaAllReduce(), create_plain)
        self.replica_context = ReplicaContext(
            self, SingleReplica(self), is_lasting=True
        )

    @override
    def scope(self) -> contextlib.AbstractContextManager[Strategy]:
        """Changes nothing: this is the strategy outside every scope."""
        guards.require_cross_replica("`strategy.scope()`")
        guards.require_same_strategy("`strategy.scope()`", self)
        return contextlib.nullcontext(self)

    @override
    def experimental_distribute_dataset(
        self, dataset: Any, options: input_context.InputOptions | None = None
    ) -> Any:
        return dataset

    @override
    def distribute_datasets_from_function(
        self,
        dataset_fn: Callable[[input_context.InputContext], Any],
        options: input_context.InputOptions | None = None,
    ) -> Any:
        return dataset_fn(input_context.InputContext())

    @override
    def _owns(self, variable: Variable) -> bool:
        # Plain variables without another strategy belong to the default one.
        return variable.owner is None and not isinstance(variable, DistributedVariable)

    @override
    def _wrap_parts(self, parts: list[Any]) -> Tree:
        return parts[0]


@functools.cache
def default_strategy() -> DefaultStrategy:
    """Returns the default strategy of this process."""
    return DefaultStrategy()
