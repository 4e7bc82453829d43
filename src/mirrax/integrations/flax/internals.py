"""The private names of Flax that Mirrax needs, and nothing else.

All were tested with flax 0.12.8. Whoever raises the version reads this file.
"""

from __future__ import annotations

from typing import Any

import jax

try:
    from flax import nnx
    from flax.nnx.tracers import TraceState, current_jax_trace

    _raw = nnx.Variable.__dict__["_raw_value"]
    _state = nnx.Variable.__dict__["_trace_state"]
    # Methods and slots that Mirrax replaces while something is traced or run: where
    # they are, their names, and what Flax has there.
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
    with jax.ensure_compile_time_eval():
        OUTSIDE = current_jax_trace()
except (ImportError, AttributeError, KeyError) as error:
    raise ImportError(
        "Mirrax was tested with flax 0.12.8 and does not know this version. Received: "
        f"{error!r}. Install 'flax>=0.12.8,<0.13', or import it after the work that "
        "Mirrax does."
    ) from error


# Bound methods, because they are called for each variable in each step.
array_of = _raw.__get__
"""Returns what a variable holds, whoever asks; AttributeError if nothing."""
set_array = _raw.__set__
"""Makes a variable hold an array."""
state_of = _state.__get__
"""Returns what says where a variable may be written."""
set_state = _state.__set__
"""Says where a variable may be written."""


def graph_state(module: Any) -> Any:
    """Returns what Flax keeps about the object that a module is."""
    return module._pytree__state


def set_graph_state(module: Any, state: Any) -> None:
    """Makes Flax keep something else about a module, unnoticed."""
    object.__setattr__(module, "_pytree__state", state)


def is_from_outside(module: Any) -> bool:
    """Returns whether a module was made outside of every trace."""
    return bool(module._pytree__state.trace_state.jax_trace == OUTSIDE)


__all__ = [
    "CHECK_CONTEXT",
    "DRAW",
    "OUTSIDE",
    "SET_ATTRIBUTE",
    "TRACE_STATE",
    "UPDATE_AVERAGE",
    "VALUE",
    "TraceState",
    "array_of",
    "current_jax_trace",
    "graph_state",
    "is_from_outside",
    "set_array",
    "set_graph_state",
    "set_state",
    "state_of",
]
