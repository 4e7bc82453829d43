"""Flax variables as Mirrax variables: how replicas aggregate and write them."""

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

is_adding = contextvars.ContextVar[bool]("mirrax_is_adding", default=False)


class VariableProxy(ForeignVariable):
    """The proxy of an `nnx.Variable`."""

    def __init__(self, variable: Any) -> None:
        kind = type(variable)
        super().__init__(
            f"nnx.{kind.__name__}",
            _aggregation_of(variable),
            trainable=isinstance(variable, nnx.Param),
        )
        self._variable = variable

    @override
    def get_array(self) -> jax.Array:
        return internals.array_of(self._variable)

    @override
    def set_array(self, array: jax.Array) -> None:
        internals.set_array(self._variable, array)

    @override
    def adds_changes(self) -> bool:
        return is_adding.get()


class _KeyProxy(VariableProxy):
    """The proxy of a random stream's key.

    Flax writes back keys that it only read. Keys cannot be aggregated, so replicas may
    only write the same key.
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


class ProxiedState(TraceState):
    """The trace state of a variable with a proxy; Flax checks it before a write."""

    __slots__ = ("proxy",)

    def __init__(self, proxy: VariableProxy, before: TraceState) -> None:
        self._jax_trace = before.jax_trace
        self.proxy = proxy

    def is_valid(self) -> bool:
        overlay = stack.overlay()
        return bool(super().is_valid() if overlay is None else overlay.is_current)

    def __reduce__(self) -> Any:
        return TraceState, ()


class ReplicaLocalState(TraceState):
    """The trace state of a variable that an eager replica created."""

    __slots__ = ("_context",)

    def __init__(self, context: Any) -> None:
        self._jax_trace = internals.current_jax_trace()
        self._context = weakref.ref(context)

    def is_here(self) -> bool:
        frame = stack.frame()
        return isinstance(frame, stack.Replica) and frame.context is self._context()

    def __reduce__(self) -> Any:
        return TraceState, ()


def proxy_of(variable: Any) -> VariableProxy | None:
    """Returns the proxy of `variable` in the current context, if it has one."""
    if not foreign_libraries.is_routed():
        return None
    state = internals.state_of(variable)
    if type(state) is ProxiedState:
        return state.proxy
    if type(state) is ReplicaLocalState and state.is_here():
        return None
    # A variable created inside a trace belongs to it.
    return (
        _make_proxy(variable, state) if state.jax_trace == internals.OUTSIDE else None
    )


def _make_proxy(variable: Any, state: TraceState) -> VariableProxy | None:
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
    proxy = (_KeyProxy if isinstance(variable, nnx.RngKey) else VariableProxy)(variable)
    internals.set_state(variable, ProxiedState(proxy, state))
    return proxy


def require_proxy(variable: Any) -> VariableProxy:
    """Returns the proxy of `variable`; raises if it cannot have one."""
    state = internals.state_of(variable)
    proxy = state.proxy if type(state) is ProxiedState else _make_proxy(variable, state)
    if proxy is None:
        raise TypeError(
            "Gradients need variables that hold an array and were created outside the "
            f"function. Received: {variable!r}. Inside, use `nnx.value_and_grad`."
        )
    return proxy


def _aggregation_of(variable: Any) -> VariableAggregation:
    """Returns the aggregation in the metadata, or the default of the type."""
    named = variable.get_metadata().get("aggregation")
    if named is not None:
        return VariableAggregation[getattr(named, "name", str(named)).upper()]
    is_statistic = isinstance(variable, nnx.BatchStat)
    return VariableAggregation.MEAN if is_statistic else VariableAggregation.NONE
