"""Hooks that make Keras variables use their proxies.

Outside any strategy and trace, Keras variables are unchanged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import keras

from mirrax._jax.arrays import is_stored
from mirrax.collectives import worker_exchange
from mirrax.context import stack
from mirrax.integrations.keras import hooks, internals
from mirrax.integrations.keras.multi_worker import from_chief
from mirrax.integrations.keras.variables import (
    KerasProxy,
    PlainProxy,
    make_proxy,
)
from mirrax.variables.foreign_variable import Outdated
from mirrax.variables.variable import Variable

_PROXY = "_mirrax_proxy"


def install() -> None:
    """Routes reads and writes of Keras variables to their proxies."""
    read = keras.Variable.value.fget
    keras.Variable.value = property(lambda self: _read(read, self))
    hooks.wrap(keras.Variable, "__init__", _create)
    hooks.wrap(*internals.INITIALIZE_LATER, _create)
    hooks.wrap(*internals.ASSIGN_DIRECTLY, _assign)
    for name in ("assign_add", "assign_sub"):
        hooks.wrap(keras.Variable, name, _assign_change)


def proxy_of(variable: Any) -> Any:
    """Returns the proxy of a Keras variable; creates one if needed."""
    proxy = variable.__dict__.get(_PROXY)
    return attach(variable, PlainProxy(variable)) if proxy is None else proxy


def attach(variable: Any, proxy: Any) -> Any:
    """Sets the proxy of a Keras variable, and returns it."""
    variable.__dict__[_PROXY] = proxy
    return proxy


def read_whole(variable: Any) -> Any:
    """Returns the combined array of a variable, also inside a trace."""
    proxy = variable.__dict__.get(_PROXY)
    with jax.ensure_compile_time_eval():
        array = internals.array_of(variable) if proxy is None else proxy.whole()
    return variable.value if array is None else array


def write_whole(variable: Any, array: jax.Array) -> None:
    """Sets the combined array of a variable, also inside a trace."""
    proxy = variable.__dict__.get(_PROXY)
    if proxy is None:
        internals.set_array(variable, array)
        return
    with jax.ensure_compile_time_eval():
        proxy.put(array)


def is_initialized(variable: Any) -> bool:
    """Returns whether a variable has a value."""
    return _PROXY in variable.__dict__ or internals.array_of(variable) is not None


def adopt(variables: Iterable[Any], strategy: Any) -> None:
    """Assigns variables to `strategy`, wherever they were created."""
    is_replaced = False
    for variable in variables:
        proxy = variable.__dict__.get(_PROXY)
        if proxy is not None and proxy.owner is not None:
            _require_same(proxy, strategy)
            with jax.ensure_compile_time_eval():
                proxy.put(proxy.held())
        elif internals.array_of(variable) is not None:
            is_replaced |= proxy is not None
            proxy = attach(variable, make_proxy(variable, strategy))
            with jax.ensure_compile_time_eval():
                proxy.put(from_chief(strategy.topology, variable, proxy.held()))
    if is_replaced and stack.overlay() is not None:
        # The trace may have read a variable through the proxy that it had before.
        raise Outdated


def _create(original: Callable[..., None], self: Any, *args: Any, **kw: Any) -> None:
    if internals.stateless_scope() is not None:
        original(self, *args, **kw)
        return
    strategy = hooks.current_strategy()
    is_traced = stack.overlay() is not None
    # Eagerly, even while a function is traced.
    with jax.ensure_compile_time_eval() if is_traced else contextlib.nullcontext():
        original(self, *args, **kw)
        if strategy is not None:
            adopt([self], strategy)


def _read(original: Callable[..., Any], self: Any) -> Any:
    scope = internals.stateless_scope()
    if scope is not None:
        if scope.get_current_value(self) is not None:
            return original(self)
        if internals.awaits_value(self):
            # Only its shape matters yet. An initializer may use Mirrax variables.
            dtype = jax.dtypes.canonicalize_dtype(internals.dtype_of(self))
            return internals.autocast(self, jnp.zeros(self.shape, dtype))
        if stack.overlay() is None:
            return original(self)
    proxy = _active_proxy(self)
    if proxy is None:
        return original(self)
    if not _reads_whole(proxy):
        value = proxy.value
    elif isinstance(stack.frame(), hooks.PassingState):
        value = proxy.held()
    else:
        value = proxy.whole()
    # During `fit` the trainer holds the values.
    return original(self) if value is None else internals.autocast(self, value)


def _assign(original: Callable[..., None], self: Any, value: Any) -> None:
    proxy = _active_proxy(self)
    if proxy is None:
        original(self, value)
    elif _reads_whole(proxy):
        if proxy.owner is not None:
            value = _same_everywhere(proxy, value)
        proxy.put(value)
    else:
        proxy.assign(value)


def _assign_change(original: Callable[..., Any], self: Any, value: Any) -> Any:
    """Adds or subtracts, as `original` does."""
    if not _accumulates(self):
        return original(self, value)
    assign = getattr(proxy_of(self), original.__name__)
    return assign(jnp.asarray(value, internals.dtype_of(self)))


def _accumulates(variable: Any) -> bool:
    """Returns whether replicas add to a SUM here; Keras would assign instead."""
    is_sum = variable.aggregation == "sum" and variable.synchronization != "on_read"
    return (
        is_sum and hooks.replica() is not None and _active_proxy(variable) is not None
    )


def _active_proxy(variable: Any) -> Any:
    """Returns the proxy to use in the current context; None to use Keras' own code."""
    proxy = variable.__dict__.get(_PROXY)
    if proxy is not None or internals.array_of(variable) is None:
        return proxy
    is_traced = stack.overlay() is not None
    strategy = hooks.current_strategy()
    if hooks.replica() is not None or (is_traced and strategy is not None):
        adopt([variable], strategy)
    elif is_traced:
        return proxy_of(variable)
    return variable.__dict__.get(_PROXY)


def _reads_whole(proxy: Any) -> bool:
    """Returns whether the current code sees all copies as one array, as Keras does."""
    if not isinstance(proxy, KerasProxy):
        # A wrapped variable of Mirrax.
        return False
    is_update = isinstance(stack.frame(), stack.Update)
    return stack.overlay() is None and hooks.replica() is None and not is_update


def _same_everywhere(proxy: Any, value: Any) -> Any:
    """Returns what all workers assign; raises if they assign different values."""
    topology, frame = proxy.topology, stack.frame()
    if topology.is_local or isinstance(value, jax.core.Tracer):
        return value
    if isinstance(frame, hooks.ChiefOnly):
        frame.ask("assign", proxy.original)
        topic = f"Keras variable {proxy.shared_name}"
        return worker_exchange.from_first(topology, topic, value)
    if not is_stored(value) or value.is_fully_addressable:
        worker_exchange.require_equal(topology, proxy, value)
    return value


def _require_same(proxy: Variable, strategy: Any) -> None:
    if proxy.owner is not strategy and proxy.owner.topology != strategy.topology:
        raise ValueError(
            f"Keras variable '{proxy.name}' belongs to the strategy in whose scope it "
            f"was created. Received: {proxy.owner!r}, to be used with {strategy!r}. "
            "Create the model, its optimizer and its metrics for one strategy."
        )
