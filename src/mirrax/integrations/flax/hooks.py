"""Hooks that replace methods and slots of Flax during a trace or a `run`."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

import flax
import jax

from mirrax.context import stack
from mirrax.integrations.flax import internals
from mirrax.integrations.flax.variables import (
    ReplicaLocalState,
    is_adding,
    proxy_of,
)

_update_average = internals.UPDATE_AVERAGE[-1]
_check_context = internals.CHECK_CONTEXT[-1]
_draw = internals.DRAW[-1]

_touched: contextvars.ContextVar[list[Any]] = contextvars.ContextVar("mirrax_touched")


class _RawValue:
    """Replaces the slot that holds a variable's value."""

    def __get__(self, variable: Any, owner: type | None = None) -> Any:
        if variable is None:
            return self
        proxy = proxy_of(variable)
        return internals.array_of(variable) if proxy is None else proxy.value

    def __set__(self, variable: Any, value: Any) -> None:
        proxy = proxy_of(variable)
        if proxy is not None:
            proxy.assign(value)
            return
        frame = stack.frame()
        if stack.overlay() is None and isinstance(frame, stack.Replica):
            internals.set_state(variable, ReplicaLocalState(frame.context))
        internals.set_array(variable, value)


class _TraceStateSlot:
    """Replaces the slot that says where a variable may be written."""

    def __get__(self, variable: Any, owner: type | None = None) -> Any:
        if variable is None:
            return self
        proxy_of(variable)
        return internals.state_of(variable)

    def __set__(self, variable: Any, value: Any) -> None:
        internals.set_state(variable, value)


def _update_average_of_all(self: Any, *args: Any, **kwargs: Any) -> None:
    """Replaces `Average.update`: sums over all replicas."""
    token = is_adding.set(True)
    try:
        _update_average(self, *args, **kwargs)
    finally:
        is_adding.reset(token)


def _check_valid_context(self: Any, error_msg: Callable[[], str]) -> None:
    """Replaces the check of modules: outer modules may be used in our traces."""
    overlay = stack.overlay()
    if overlay is None or not internals.is_from_outside(self):
        _check_context(self, error_msg)
    elif not overlay.is_current:
        raise flax.errors.TraceContextError(error_msg())
    else:
        # Flax rebuilds modules in place, which ties them to the trace; undone later.
        _touched.get().append((self, internals.graph_state(self)))


def _draw_for_replica(self: Any) -> jax.Array:
    """Replaces the call of a random stream: each replica draws its own keys."""
    key: jax.Array = _draw(self)
    frame = stack.frame()
    if not isinstance(frame, stack.Replica) or frame.strategy.topology.is_single:
        return key
    return jax.random.fold_in(key, frame.context.replica_id_in_sync_group)


_HOOKS = (
    (internals.DRAW, _draw_for_replica),
    (internals.CHECK_CONTEXT, _check_valid_context),
    (internals.VALUE, _RawValue()),
    (internals.TRACE_STATE, _TraceStateSlot()),
    (internals.UPDATE_AVERAGE, _update_average_of_all),
)


class _HookCounter:
    """Installs the hooks while at least one thread needs them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0

    def enter(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                for (owner, name, _), hook in _HOOKS:
                    setattr(owner, name, hook)

    def leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                for (owner, name, original), _ in _HOOKS:
                    setattr(owner, name, original)


_hook_counter = _HookCounter()


@contextlib.contextmanager
def routed() -> Iterator[None]:
    """Routes reads and writes of variables to Mirrax, in the `with` block."""
    touched: list[Any] = []
    token = _touched.set(touched)
    _hook_counter.enter()
    try:
        yield
    finally:
        _hook_counter.leave()
        _touched.reset(token)
        for module, state in touched:
            internals.set_graph_state(module, state)
