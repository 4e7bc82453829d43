"""What eager replicas write to a variable of all while a derivative is under way.

Each replica differentiates for itself, and JAX gives values out only at the end. So a
write stays in the overlay of the derivative, where later reads find it, and is stored
when the derivative has ended. The replicas meet for both: at the write for what their
values amount to, through which the derivative reaches, and at the end to store it once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from mirrax._jax.tape_trace import is_recorded
from mirrax.context import stack
from mirrax.options import VariableAggregation
from mirrax.trees import Same
from mirrax.values.layouts import replicate
from mirrax.values.mirrored import Mirrored
from mirrax.values.regroup import parts_of
from mirrax.variables.aggregation import REDUCTIONS, Aggregated, aggregate
from mirrax.variables.variable import Change


class Shared(Aggregated, Protocol):
    """A variable that all replicas write together."""

    def keep(self, value: Any) -> None:
        """Stores a value that is the same on all replicas, seen from outside."""


def are_kept(overlay: Any) -> bool:
    """Returns whether what is written at this place stays in `overlay` for now.

    That is in the derivative of one of several replicas, in eager code.
    """
    return (
        overlay is not None
        and overlay.is_eager
        and overlay.has_derivative
        and _among_others()
    )


def write(variable: Shared, change: Change, given: Any) -> Any:
    """Writes what the values of all replicas amount to; returns the new value."""
    overlay = stack.overlay()
    overlay.require_current(variable)
    combined = _combined(variable, change, jnp.asarray(given))
    overlay.write(variable, change(overlay.read(variable), combined))
    return overlay.read(variable)


def hand_on(written: Mapping[Any, Any]) -> None:
    """Writes what was written in an overlay that is over to what is around it."""
    outer = stack.overlay()
    is_last = outer is None or (outer.is_eager and not outer.has_derivative)
    is_stored_together = is_last and _among_others()
    together = {}
    for variable, value in written.items():
        if is_stored_together and variable.is_written_together:
            together[variable] = value
        elif outer is None:
            variable.assign(value)
        else:
            outer.write(variable, value)
    if together:
        _store(together)


def _store(values: Mapping[Any, Any]) -> None:
    """Lets the replicas meet to store what all of them have."""
    outer, frame = stack.overlay(), stack.frame()
    for variable in values:
        if outer is None:
            variable.refuse_write_in_transformation()
        else:
            outer.require_current(variable)
    keep = _Keep(tuple(Same(variable) for variable in values))
    frame.context.merge_call(keep, args=(list(values.values()),))  # type: ignore[union-attr]


def _among_others() -> bool:
    """Returns whether the code here is that of one of several replicas."""
    frame = stack.frame()
    return isinstance(frame, stack.Replica) and not frame.strategy.topology.is_single


def _combined(variable: Shared, change: Change, given: Any) -> Any:
    """Returns what the values of all replicas amount to, for the derivative too."""
    context: Any = stack.frame().context  # type: ignore[union-attr]
    agree = _Agree(Same(variable), change)
    plain = context.merge_call(agree, args=(jax.lax.stop_gradient(given),))
    is_traced = isinstance(given, jax.core.Tracer)
    if not is_traced and not is_recorded():
        return plain
    aggregation = variable.aggregation
    if aggregation in REDUCTIONS:
        return context.all_reduce(REDUCTIONS[aggregation], given)
    if aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
        return context.all_gather(given[None], axis=0)[0]
    return given


@dataclasses.dataclass(frozen=True)
class _Agree:
    """The merge function of a write: replicas must write to the same variable."""

    variable: Same
    change: Change

    def __call__(self, strategy: Any, value: Any) -> Mirrored:
        variable = self.variable.value
        combined = aggregate(variable, value, strategy.num_replicas_in_sync)
        return Mirrored(replicate(combined, variable.collective.topology))


@dataclasses.dataclass(frozen=True)
class _Keep:
    """The merge function at the end: all replicas have come to the same values."""

    variables: tuple[Same, ...]

    def __call__(self, strategy: Any, values: Sequence[Any]) -> None:
        for variable, value in zip(self.variables, values, strict=True):
            # Made of what all agreed on at each write, so there is nothing to compare.
            variable.value.keep(parts_of(value, strategy.topology)[0])
