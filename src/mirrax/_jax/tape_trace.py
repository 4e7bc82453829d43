"""A JAX trace that evaluates operations as usual and records each of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from mirrax._jax.traces import (
    current_trace,
    evaluated,
    set_current_trace,
    traces_inside,
)


def is_differentiating_only() -> bool:
    """Returns whether all transformations under way are derivatives or tapes."""
    kinds = (*_derivative_traces(), RecordingTrace)
    return all(isinstance(trace, kinds) for trace in traces_inside(None))


@functools.cache
def _derivative_traces() -> tuple[type, ...]:
    found = []

    def identity(x: Any) -> Any:
        found.append(type(current_trace()))
        return x

    scalar = jax.ShapeDtypeStruct((), np.float32)
    with evaluated():
        jax.eval_shape(lambda x: jax.jvp(identity, (x,), (x,)), scalar)
        jax.eval_shape(lambda x: jax.vjp(identity, x)[0], scalar)
    return tuple(found)


Recorder = Callable[[Callable[..., Any], Sequence[Any], Any], Any]
"""Takes an operation, its inputs and its output; returns the output."""


class RecordingTrace(jax.core.Trace):
    """Evaluates operations in the trace around it, and records each of them.

    The outputs are plain values, not tracers of this trace.

    Args:
        read: Returns the value that a `RecordedTracer` stands for.
    """

    def __init__(self, record: Recorder, read: Callable[[Any], Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.parent_trace = current_trace()
        self.record = record
        self._read = read
        self.requires_low = self.parent_trace.requires_low

    def stage_value(self, val: Any) -> Any:
        val = self._plain(val)
        staged = self.parent_trace.stage_value(val)
        return staged if staged is val else self.record(lambda x: x, [val], staged)

    def process_primitive(self, primitive: Any, args: Any, params: Any, /) -> Any:
        plain = [self._plain(x) for x in args]
        operation = Operation(primitive, params)
        with set_current_trace(self.parent_trace):
            return self.record(operation, plain, operation(*plain))

    def process_call(self, primitive: Any, f: Any, args: Any, params: Any, /) -> Any:
        return self.process_primitive(primitive, args, {**params, "subfuns": (f,)})

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, args: Any, /, **params: Any
    ) -> Any:
        params["subfuns"] = (fun, jvp)
        return self.process_primitive(primitive, args, params)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Any, /, **params: Any
    ) -> Any:
        params["subfuns"] = (fun, fwd, bwd)
        return self.process_primitive(primitive, args, params)

    def _plain(self, value: Any) -> Any:
        is_recorded = isinstance(value, RecordedTracer)
        return self._read(value.stands_for) if is_recorded else value


@dataclasses.dataclass(frozen=True)
class Operation:
    """A primitive with its parameters, to apply to values."""

    primitive: Any
    params: dict[str, Any]

    def __call__(self, *values: Any) -> Any:
        # JAX's functions with a derivative of their own keep the structure of their
        # result, and refuse to be called again.
        for function in self.params.get("subfuns", ()):
            for store in filter(None, getattr(function, "stores", ())):
                store.reset()
        return self.primitive.bind(*values, **self.params)


class RecordedTracer(jax.core.Tracer[Any]):
    """A placeholder that a traced function closes over, so that it becomes an input.

    JAX keeps it with the jaxpr and passes it to every call. The `RecordingTrace` in
    which the call is made replaces it with the value.

    Args:
        stands_for: The argument for `read` of the trace.
    """

    aval: Any = None  # In jax 0.9, the base class has a property without setter.

    def __init__(self, stands_for: Any, like: Any) -> None:
        self._trace = _placeholder_trace
        self.aval = jax.typeof(like)
        self.stands_for = stands_for


_placeholder_trace = jax.core.Trace()


def is_recording() -> bool:
    """Returns whether the innermost trace is a `RecordingTrace`."""
    return isinstance(current_trace(), RecordingTrace)


def is_recorded() -> bool:
    """Returns whether any trace under way is a `RecordingTrace`."""
    return any(isinstance(trace, RecordingTrace) for trace in traces_inside(None))
