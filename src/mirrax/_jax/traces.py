"""The JAX transformations that are under way in this thread."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import jax

from mirrax._jax.jaxpr_types import ProgramTrace
from mirrax._jax.private import set_current_trace as set_current_trace
from mirrax._jax.private import trace_state as _trace_state

with jax.core.eval_context():
    EVAL_TRACE: Any = _trace_state.value
    """The trace of a thread in which no transformation is under way."""

_CALLBACKS = jax.pure_callback.__code__.co_filename


def current_trace() -> Any:
    """Returns the JAX trace that is under way in this thread."""
    return _trace_state.value


def is_traced_in(value: object, trace: Any) -> bool:
    """Returns whether `value` is a tracer of this trace."""
    return isinstance(value, jax.core.Tracer) and value._trace is trace


def evaluated() -> Any:
    """Evaluates operations at once in the `with` block, even inside a trace."""
    return set_current_trace(EVAL_TRACE)


def is_eager() -> bool:
    """Returns whether no JAX transformation is under way in this thread."""
    return _trace_state.value is EVAL_TRACE


def is_staging(inside: Any = None) -> bool:
    """Returns whether JAX records a jaxpr (jit, scan, cond, ...).

    The recording may be around other transformations, as in `jax.jit(jax.vmap(f))`.

    Args:
        inside: A trace that is under way; it and those outside of it do not count.
    """
    return any(isinstance(t, ProgramTrace) for t in traces_inside(inside))


def traces_inside(inside: Any) -> Iterator[Any]:
    """Yields the traces that were started inside of `inside`, the innermost first.

    None stands for no trace: all traces of this thread are inside of it.
    """
    trace = _trace_state.value
    while trace is not None and trace is not EVAL_TRACE and trace is not inside:
        yield trace
        trace = getattr(trace, "parent_trace", None)


def traces_under_way() -> list[Any]:
    """Returns the traces that are under way in this thread, the innermost first."""
    return list(traces_inside(None))


def is_in_callback() -> bool:
    """Returns whether a JAX callback runs the code that calls this."""
    frame: Any = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_wrapped_callback" and code.co_filename == _CALLBACKS:
            return True
        frame = frame.f_back
    return False
