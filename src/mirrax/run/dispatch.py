"""Chooses the engine that runs a replica function."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from mirrax import trees
from mirrax._jax.tape_trace import is_recording
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.context import stack
from mirrax.errors import WrongType
from mirrax.lazy_modules import LazyModule
from mirrax.run import function_identity
from mirrax.run.compiled.compiled_call import CompiledCall
from mirrax.run.compiled.function import AnyFunction, Function
from mirrax.run.compiled.mapped_trace import run_traced
from mirrax.run.compiled.spmd_communicator import call_alone, run_within
from mirrax.run.eager.scheduler import run_eager
from mirrax.run.replica_context import ReplicaCall
from mirrax.trees import Tree
from mirrax.values.layouts import replicate
from mirrax.values.regroup import is_mirrored_array
from mirrax.variables import foreign_libraries

if TYPE_CHECKING:
    from mirrax.run.uneven import runner
else:
    runner = LazyModule("mirrax.run.uneven.runner")


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
        return _with_whole_arguments(call, run_eager)
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
    compiled = fn.over(strategy, _run_uneven)
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


def _run_uneven(call: ReplicaCall, compiled: CompiledCall) -> Tree:
    """Runs a call that has no single program: one per replica, or eagerly."""
    return _with_whole_arguments(call, lambda whole: runner.run_uneven(whole, compiled))


def _with_whole_arguments(
    call: ReplicaCall, run: Callable[[ReplicaCall], Tree]
) -> Tree:
    """Runs a call with its sharded arguments gathered, and shards the results again."""
    topology = call.topology
    sharded = {
        (leaf.shape, leaf.dtype): layout
        for leaf in trees.leaves((call.args, call.kwargs))
        if (layout := ShardLayout.of_array(leaf, topology)) is not None
    }
    if not sharded:
        return run(call)

    def gather(leaf: Any) -> Any:
        layout = ShardLayout.of_array(leaf, topology)
        if layout is None:
            return leaf
        return replicate(layout.load(leaf, topology, "gather arguments"), topology)

    def shard(leaf: Any) -> Any:
        if not is_mirrored_array(leaf, topology):
            return leaf
        layout = sharded.get((leaf.shape, leaf.dtype))
        return leaf if layout is None else layout.store(leaf, topology)

    args, kwargs = trees.map_leaves(gather, (call.args, call.kwargs))
    results = run(dataclasses.replace(call, args=args, kwargs=kwargs))
    return trees.map_leaves(shard, results)


def _run_inside_trace(call: ReplicaCall) -> Tree:
    if isinstance(call.fn, Function):
        call = dataclasses.replace(call, fn=call.fn.fn)
    if is_recording() and not call.topology.is_single:
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
