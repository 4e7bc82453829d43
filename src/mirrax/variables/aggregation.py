"""Aggregates the writes of several replicas to one variable."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from mirrax.collectives import spmd, worker_exchange
from mirrax.collectives.reduce import Collective, reduce
from mirrax.context import stack
from mirrax.options import REDUCTIONS, VariableAggregation
from mirrax.trees import IdentityKey
from mirrax.values.array_like import is_prng_key, on_host
from mirrax.values.distributed_values import DistributedValues
from mirrax.values.layouts import Spmd
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import parts_of
from mirrax.variables.variable import Change


class Aggregated(Protocol):
    """A variable that all replicas write together."""

    @property
    def collective(self) -> Collective: ...

    @property
    def name(self) -> str: ...

    @property
    def shared_name(self) -> str: ...

    @property
    def aggregation(self) -> VariableAggregation: ...

    def write_all(self, change: Change, given: Any) -> Any: ...


def aggregate(variable: Aggregated, value: Any, num_replicas: int) -> Any:
    """Returns the aggregate of the values that all replicas write."""
    aggregation, topology = variable.aggregation, variable.collective.topology
    is_with_others = not topology.is_local and stack.overlay() is None
    if is_with_others:
        value = PerReplica(tuple(parts_of(value, topology)))
    elif not isinstance(value, DistributedValues):
        is_sum = aggregation is VariableAggregation.SUM
        return value * num_replicas if is_sum else value
    assert isinstance(value, PerReplica)
    if aggregation in REDUCTIONS:
        op = REDUCTIONS[aggregation]
        return reduce(variable.collective, op, [value], axis=None)[0]
    is_first = aggregation is VariableAggregation.ONLY_FIRST_REPLICA
    if isinstance(value.layout, Spmd):
        # With NONE, the analysis of the traced program refuses unequal values.
        return spmd.first(value.layout.value) if is_first else value.layout.value
    first = value.values[0]
    if not is_first:
        require_equal(variable.name, value.values)
    if is_with_others and is_first:
        topic = f"assign {variable.shared_name}"
        first = worker_exchange.from_first(topology, topic, first)
    elif is_with_others:
        worker_exchange.require_equal(topology, variable, first)
    return first if is_prng_key(first) else np.asarray(first)


class MergeFunction(NamedTuple):
    """A merge function that all replicas must call for the same variables.

    Args:
        function: Takes the strategy, the variables, the merged value and the options.
    """

    function: Callable[..., Any]
    variables: tuple[IdentityKey, ...]
    options: Hashable = None

    def __call__(self, strategy: Any, value: Any) -> Any:
        variables = [key.value for key in self.variables]
        return self.function(strategy, variables, value, self.options)


def require_equal(name: str, values: Sequence[Any]) -> None:
    """Raises unless all copies of a variable get the same value; NaN equals NaN."""
    first = on_host(values[0])
    for index, value in enumerate(values):
        other = on_host(value)
        # Works for every dtype, unlike `np.isnan`.
        are_nan = (first != first) & (other != other)  # noqa: PLR0124
        if not np.all((first == other) | are_nan):
            raise ValueError(
                f"Variable '{name}' has aggregation NONE, so every replica must assign "
                f"the same value. Received: replica 0 assigns {first}, replica {index} "
                f"assigns {other}. Combine the values first "
                "(`get_replica_context().all_reduce`), or create the variable with an "
                "`aggregation` (SUM, MEAN, ONLY_FIRST_REPLICA)."
            )
