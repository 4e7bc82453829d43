"""Writes of eager replicas to shared variables, also while a derivative is computed.

Each replica differentiates separately, and JAX returns values only at the end. So a
write inside a derivative stays in its overlay, where later reads find it, and is stored
after the derivative. The replicas synchronize twice: at the write, to aggregate their
values differentiably, and at the end, to store the result once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax._jax.tape_trace import is_recorded
from mirrax.context import stack
from mirrax.options import REDUCTIONS, VariableAggregation
from mirrax.trees import IdentityKey
from mirrax.values.layouts import replicate
from mirrax.values.mirrored import Mirrored
from mirrax.values.regroup import parts_of
from mirrax.variables.aggregation import (
    Aggregated,
    MergeFunction,
    aggregate,
)
from mirrax.variables.variable import Change, replace


def are_deferred(overlay: Any) -> bool:
    """Returns whether a write here stays in `overlay` until the derivative ends.

    That is in the derivative of one of several replicas, in eager code.
    """
    return (
        overlay is not None
        and overlay.is_eager
        and overlay.has_derivative
        and _has_other_replicas()
    )


def write_in_replica(variable: Aggregated, change: Change, given: Any) -> Any:
    """Writes the aggregate of the values of all replicas; returns the new value."""
    overlay, frame = stack.overlay(), stack.frame()
    if not are_deferred(overlay):
        write = MergeFunction(_write, (IdentityKey(variable),), change)
        return frame.context.merge_call(write, args=(given,))  # type: ignore[union-attr]
    overlay.require_current(variable)
    combined = _combined(variable, change, jnp.asarray(given))
    overlay.write(variable, change(overlay.read(variable), combined))
    return overlay.read(variable)


def propagate_writes(written: Mapping[Any, Any]) -> None:
    """Writes the values of an overlay that has ended to the outer overlay or store."""
    outer = stack.overlay()
    is_last = outer is None or (outer.is_eager and not outer.has_derivative)
    is_synchronized = is_last and _has_other_replicas()
    synchronized = {}
    for variable, value in written.items():
        if is_synchronized and variable.is_written_together:
            synchronized[variable] = value
        elif outer is None:
            variable.assign(value)
        else:
            outer.write(variable, value)
    if synchronized:
        _store(synchronized)


def _store(values: Mapping[Any, Any]) -> None:
    """Synchronizes the replicas to store the values, which are equal on all."""
    outer, frame = stack.overlay(), stack.frame()
    for variable in values:
        if outer is None:
            variable.refuse_write_in_transformation()
        else:
            outer.require_current(variable)
    store = MergeFunction(_store_equal, tuple(map(IdentityKey, values)))
    frame.context.merge_call(store, args=(list(values.values()),))  # type: ignore[union-attr]


def _has_other_replicas() -> bool:
    """Returns whether this is the code of one of several replicas."""
    frame = stack.frame()
    return isinstance(frame, stack.Replica) and not frame.strategy.topology.is_single


def _combined(variable: Aggregated, change: Change, given: Any) -> Any:
    """Returns the aggregate of the values of all replicas, differentiably."""
    context: Any = stack.frame().context  # type: ignore[union-attr]
    merge = MergeFunction(_aggregate, (IdentityKey(variable),), change)
    plain = context.merge_call(merge, args=(jax.lax.stop_gradient(given),))
    is_traced = isinstance(given, jax.core.Tracer)
    if not is_traced and not is_recorded():
        return plain
    aggregation = variable.aggregation
    if aggregation in REDUCTIONS:
        return context.all_reduce(REDUCTIONS[aggregation], given)
    if aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
        return context.all_gather(given[None], axis=0)[0]
    return given


# MergeFunction functions. All replicas must write to the same variables.


def _write(strategy: Any, variables: Sequence[Any], value: Any, change: Change) -> Any:
    (variable,) = variables
    combined = aggregate(variable, value, strategy.num_replicas_in_sync)
    return variable.write_all(change, combined)


def _aggregate(strategy: Any, variables: Sequence[Any], value: Any, _: Any) -> Any:
    (variable,) = variables
    combined = aggregate(variable, value, strategy.num_replicas_in_sync)
    return Mirrored(replicate(combined, variable.collective.topology))


def _store_equal(strategy: Any, variables: Sequence[Any], values: Any, _: Any) -> None:
    for variable, value in zip(variables, values, strict=True):
        # Computed from aggregates, so it is equal on all: nothing to compare.
        variable.write_all(replace, parts_of(value, strategy.topology)[0])
