"""The private names of Flax that Mirrax uses; tested with flax 0.12.8."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Iterator
from typing import Any


def _found(owner: Any, name: str) -> tuple[Any, str, Any]:
    """Returns the owner, the name and the original of a method or slot."""
    return owner, name, vars(owner)[name]


# What the thread knows of the transforms under way, such as `nnx.value_and_grad`.
_TRANSFORMS = ("update_context_stacks", "ref_index_stack", "index_ref_stack")

try:
    from flax import nnx
    from flax.nnx.graphlib import GRAPH_CONTEXT
    from flax.nnx.tracers import TraceState as TraceState
    from flax.nnx.tracers import current_jax_trace as current_jax_trace

    # Methods and slots that Mirrax replaces during a trace or a run.
    VALUE = _found(nnx.Variable, "_raw_value")
    TRACE_STATE = _found(nnx.Variable, "_trace_state")
    UPDATE_AVERAGE = _found(nnx.metrics.Average, "update")
    DRAW = _found(nnx.RngStream, "__call__")
    CHECK_CONTEXT = _found(nnx.Pytree, "_check_valid_context")
    SET_ATTRIBUTE = _found(nnx.Pytree, "__setattr__")
    for attribute in _TRANSFORMS:
        getattr(GRAPH_CONTEXT, attribute)
    # A thread of its own is outside of the trace in which this may be imported.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        OUTSIDE = thread.submit(current_jax_trace).result()
except (ImportError, AttributeError, KeyError) as error:
    raise ImportError(
        "Mirrax was tested with flax 0.12.8 and does not know this version. Received: "
        f"{error!r}. Install 'flax>=0.12.8,<0.13'."
    ) from error


# Bound methods, because they are called for each variable in each step.
array_of = VALUE[-1].__get__
"""Returns a variable's raw value; raises AttributeError if it has none."""
set_array = VALUE[-1].__set__
state_of = TRACE_STATE[-1].__get__
"""Returns the trace state, which says where a variable may be written."""
set_state = TRACE_STATE[-1].__set__


def graph_state(module: Any) -> Any:
    """Returns Flax's state of a module object."""
    return module._pytree__state


def set_graph_state(module: Any, state: Any) -> None:
    """Sets Flax's state of a module object, bypassing `__setattr__`."""
    object.__setattr__(module, "_pytree__state", state)


def is_from_outside(module: Any) -> bool:
    """Returns whether a module was created outside any trace."""
    return bool(module._pytree__state.trace_state.jax_trace == OUTSIDE)


@contextlib.contextmanager
def cleared_transforms() -> Iterator[None]:
    """Hides the transforms under way from other replicas, in the `with` block."""
    saved = {name: getattr(GRAPH_CONTEXT, name) for name in _TRANSFORMS}
    for name, value in saved.items():
        setattr(GRAPH_CONTEXT, name, type(value)())
    try:
        yield
    finally:
        for name, value in saved.items():
            setattr(GRAPH_CONTEXT, name, value)
