"""The private names of Flax that Mirrax uses; tested with flax 0.12.8."""

from __future__ import annotations

import concurrent.futures
from typing import Any

try:
    from flax import nnx
    from flax.nnx.tracers import TraceState as TraceState
    from flax.nnx.tracers import current_jax_trace as current_jax_trace

    _raw = nnx.Variable.__dict__["_raw_value"]
    _state = nnx.Variable.__dict__["_trace_state"]
    # Methods and slots that Mirrax replaces during a trace or a run: the owner, the
    # name and the original.
    VALUE = (nnx.Variable, "_raw_value", _raw)
    TRACE_STATE = (nnx.Variable, "_trace_state", _state)
    UPDATE_AVERAGE = (
        nnx.metrics.Average,
        "update",
        nnx.metrics.Average.__dict__["update"],
    )
    DRAW = (nnx.RngStream, "__call__", nnx.RngStream.__dict__["__call__"])
    CHECK_CONTEXT = (
        nnx.Pytree,
        "_check_valid_context",
        nnx.Pytree.__dict__["_check_valid_context"],
    )
    SET_ATTRIBUTE = (nnx.Pytree, "__setattr__", nnx.Pytree.__dict__["__setattr__"])
    # A thread of its own is outside of the trace in which this may be imported.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        OUTSIDE = thread.submit(current_jax_trace).result()
except (ImportError, AttributeError, KeyError) as error:
    raise ImportError(
        "Mirrax was tested with flax 0.12.8 and does not know this version. Received: "
        f"{error!r}. Install 'flax>=0.12.8,<0.13', or import it after the work that "
        "Mirrax does."
    ) from error


# Bound methods, because they are called for each variable in each step.
array_of = _raw.__get__
"""Returns a variable's raw value; raises AttributeError if it has none."""
set_array = _raw.__set__
state_of = _state.__get__
"""Returns the trace state, which says where a variable may be written."""
set_state = _state.__set__


def graph_state(module: Any) -> Any:
    """Returns Flax's state of a module object."""
    return module._pytree__state


def set_graph_state(module: Any, state: Any) -> None:
    """Sets Flax's state of a module object, bypassing `__setattr__`."""
    object.__setattr__(module, "_pytree__state", state)


def is_from_outside(module: Any) -> bool:
    """Returns whether a module was created outside any trace."""
    return bool(module._pytree__state.trace_state.jax_trace == OUTSIDE)
