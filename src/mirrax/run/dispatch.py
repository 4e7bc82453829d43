"""Chooses the engine that runs a replica function."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from mirrax._jax.tape_trace import is_recording
from mirrax._jax.traces import is_staging
from mirrax.context import stack
from mirrax.errors import WrongType
from mirrax.run import function_identity
from mirrax.run.compiled.function import AnyFunction, Function
from mirrax.run.compiled.mapped_trace import run_traced
from mirrax.run.compiled.spmd_communicator import call_alone, run_within
from mirrax.run.eager.scheduler import run_eager
from mirrax.run.replica_context import ReplicaCall
from mirrax.trees import Tree
from mirrax.variables import foreign_libraries


def run(
    strategy: Any, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Tree:
    """Returns the merged results of `fn` on every replica of `strategy`."""
    untraced, is_traced = stack.untraced_function(), stack.overlay() is not None
    if type(fn) is Function and type(args) is tuple and not kwargs:
        # The hot path: a call like the one before.
        strategy_of, replica_function = fn.last_replica_function
        is_compiled = untraced is None and not is_traced and not Function.runs_eagerly
        if strategy_of() is strategy and is_compiled and fn.input_signature is None:
            compiled = replica_function()
            known = None if compiled is None else compiled.last_call
            if known is not None:
                arrays = known.arrays_of(args)
                if arrays is not None:
                    return known.program(arrays)
    if not callable(fn):
        raise TypeError(
            "`run` takes a function and its arguments: run(fn, args=(...)). Received: "
            f"fn={fn!r}."
        )
    if not isinstance(args, (tuple, list)) or not isinstance(kwargs, dict):
        _refuse_arguments(args, kwargs)
    if isinstance(fn, functools.partial):
        fn, args, kwargs = _unpacked(fn, args, kwargs)
    if isinstance(fn, Function):
        if Function.runs_eagerly:
            fn = fn.fn
        elif not is_traced:
            return _run_compiled(strategy, fn, args, kwargs)
    elif untraced is not None and not is_traced:
        return _run_inside_untraced(untraced, strategy, fn, args, kwargs)
    foreign_libraries.connected()
    call = ReplicaCall(strategy, strategy.collective, fn, tuple(args), kwargs)
    with strategy.scope():
        return _run_inside_trace(call) if is_traced else _run_by_python(call)


def _run_by_python(call: ReplicaCall) -> Tree:
    if not call.topology.is_single:
        return run_eager(call)
    with jax.default_device(call.topology.devices[0]):
        return call_alone(call)


def _refuse_arguments(args: Any, kwargs: Any) -> None:
    if isinstance(args, tuple | list):
        raise TypeError(
            "`kwargs` of `run` is a dict of named arguments: run(fn, kwargs={'x': x}). "
            f"Received: kwargs of type {type(kwargs).__name__}."
        )
    hint = " For named arguments, write kwargs={...}." if isinstance(args, dict) else ""
    raise WrongType(
        "`args` of `run` is a tuple of arguments, with a comma also for one: "
        f"run(fn, args=(x,)). Received: args of type {type(args).__name__}. Write "
        f"args=(value,).{hint}"
    )


def _unpacked(
    fn: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
    """Returns a call of a partial `function`, such as a method, as one of the whole."""
    while isinstance(fn, functools.partial) and isinstance(fn.func, Function):
        args, kwargs = (*fn.args, *args), {**fn.keywords, **kwargs}
        fn = fn.func
    return fn, args, kwargs


def _run_compiled(
    strategy: Any, fn: AnyFunction, args: Sequence[Any], kwargs: dict[str, Any]
) -> Tree:
    args, kwargs = fn.fitted(args, kwargs)
    compiled = fn.over(strategy)
    if stack.untraced_function() is None:
        return compiled.call(args, kwargs)
    with stack.running_untraced(None):
        return compiled.call(args, kwargs)


def _run_inside_untraced(
    untraced: AnyFunction,
    strategy: Any,
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Tree:
    compiled = untraced.compiled(fn)
    count = compiled.trace_count
    result = _run_compiled(strategy, compiled, args, kwargs)
    if compiled.trace_count != count:
        # Tracing may have changed captured values, such as a counter, or created a
        # variable. That must not retrace it.
        untraced.remember(function_identity.identity(fn), compiled)
    return result


def _run_inside_trace(call: ReplicaCall) -> Tree:
    if isinstance(call.fn, Function):
        call = dataclasses.replace(call, fn=call.fn.fn)
    if is_recording() and not (is_staging() or call.topology.is_single):
        raise RuntimeError(
            "A `GradientTape` in eager code follows one replica, and `strategy.run` is "
            "called inside it. Put the tape into the function that `run` calls, or the "
            "whole into a `@mirrax.function`."
        )
    if stack.overlay().inside_replica and not call.topology.is_single:
        return run_within(call)
    if not call.topology.is_single:
        return run_traced(call)
    return call_alone(call)
