"""What stands for the variables of Flax in everything that engines do."""

from __future__ import annotations

import contextvars
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from typing_extensions import override

from mirrax.context import stack
from mirrax.integrations.flax import internals
from mirrax.integrations.flax.internals import TraceState
from mirrax.options import VariableAggregation
from mirrax.variables import foreign_libraries
from mirrax.variables.foreign_variable import ForeignVariable

_AGGREGATIONS = {
    nnx.BatchStat: VariableAggregation.MEAN,
}

is_adding: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "mirrax_is_adding", default=False
)


class StandIn(ForeignVariable):
    """What stands for an `nnx.Variable`."""

    def __init__(self, variable: Any) -> None:
        kind = type(variable)
        super().__init__(f"nnx.{kind.__name__}", _aggregation_of(variable))
        self._variable = variable

    @override
    def get_array(self) -> jax.Array:
        return internals.array_of(self._variable)  # type: ignore[no-any-return]

    @override
    def set_array(self, array: jax.Array) -> None:
        internals.set_array(self._variable, array)

    @override
    def adds_changes(self) -> bool:
        return is_adding.get()


class _Key(StandIn):
    """What stands for the key of a random stream.

    Flax writes keys back that it only read. Keys cannot be combined, so all a replica
    can write is a key that is the same everywhere.
    """

    @override
    def _write(self, change: Any, given: Any) -> Any:
        overlay = stack.overlay()
        if overlay is not None:
            overlay.write(self, given)
        elif not _is_same_key(self.value, given):
            raise ValueError(
                "The key of a random stream cannot be replaced inside an eager `run`. "
                "Received: another key. Use `nnx.reseed` outside, or a `@function`."
            )
        return given


def _is_same_key(one: jax.Array, other: jax.Array) -> bool:
    data = jax.random.key_data(one), jax.random.key_data(other)
    return bool(np.array_equal(*data))


class Adopted(TraceState):
    """The trace state of a variable that takes part; Flax asks it before a write."""

    __slots__ = ("stand_in",)

    def __init__(self, stand_in: StandIn, before: TraceState) -> None:
        self._jax_trace = before.jax_trace
        self.stand_in = stand_in

    def is_valid(self) -> bool:
        overlay = stack.overlay()
        return bool(super().is_valid() if overlay is None else overlay.is_current)

    def __reduce__(self) -> Any:
        return TraceState, ()


class Local(TraceState):
    """The trace state of a variable that an eager replica made for itself."""

    __slots__ = ("_context",)

    def __init__(self, context: Any) -> None:
        self._jax_trace = internals.current_jax_trace()
        self._context = weakref.ref(context)

    def is_here(self) -> bool:
        frame = stack.frame()
        return isinstance(frame, stack.Replica) and frame.context is self._context()

    def __reduce__(self) -> Any:
        return TraceState, ()


def stand_in_of(variable: Any) -> StandIn | None:
    """Returns what stands for `variable` at this place; None where nothing does."""
    if not foreign_libraries.is_routed():
        return None
    state = internals.state_of(variable)
    if type(state) is Adopted:
        return state.stand_in
    if type(state) is Local and state.is_here():
        return None
    # What was made inside a trace belongs to it.
    return _adopt(variable, state) if state.jax_trace == internals.OUTSIDE else None


def _adopt(variable: Any, state: TraceState) -> StandIn | None:
    try:
        value = internals.array_of(variable)
    except AttributeError:
        return None
    if isinstance(value, np.ndarray | np.generic):
        with jax.ensure_compile_time_eval():
            value = jnp.asarray(value)
        internals.set_array(variable, value)
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        return None
    stand_in = (_Key if isinstance(variable, nnx.RngKey) else StandIn)(variable)
    internals.set_state(variable, Adopted(stand_in, state))
    return stand_in


def require_stand_in(variable: Any) -> StandIn:
    """Returns what stands for `variable`; raises where nothing can."""
    state = internals.state_of(variable)
    stand_in = state.stand_in if type(state) is Adopted else _adopt(variable, state)
    if stand_in is None:
        raise TypeError(
            "Gradients are taken by variables that hold an array and were made outside "
            f"the function. Received: {variable!r}. Inside, use `nnx.value_and_grad`."
        )
    return stand_in


def _aggregation_of(variable: Any) -> VariableAggregation:
    """Returns the aggregation that the user named, or that suits the kind."""
    named = variable.get_metadata().get("aggregation")
    if named is not None:
        return VariableAggregation[getattr(named, "name", str(named)).upper()]
    return next(
        (how for kind, how in _AGGREGATIONS.items() if isinstance(variable, kind)),
        VariableAggregation.NONE,
    )
