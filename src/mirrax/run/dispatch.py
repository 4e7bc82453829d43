"""Which engine runs a replica function."""

from __future__ import annotations

import dataclasses

import jax

from mirrax.context import stack
from mirrax.run.call import ReplicaCall
from mirrax.run.eager import run_eager
from mirrax.run.function import Function
from mirrax.run.meeting import Alone
from mirrax.run.replica_context import ReplicaContext
from mirrax.run.spmd import run_traced, run_within
from mirrax.run.uneven import has_uneven, run_uneven
from mirrax.trees import Tree
from mirrax.values.regroup import select


def call_for_each_replica(call: ReplicaCall) -> Tree:
    """Returns the merged results of a function on every replica."""
    fn = call.fn
    if not callable(fn):
        raise TypeError(
            "`run` takes a function and its arguments: run(fn, args=(...)). Received: "
            f"fn={fn!r}."
        )
    if stack.overlay() is not None:
        return _run_inside_trace(call)
    driver = stack.driver()
    if driver is not None and not isinstance(fn, Function):
        fn = driver.compiled(fn)
    if isinstance(fn, Function):
        return _run_compiled(call, fn)
    if call.topology.is_single:
        with jax.default_device(call.topology.devices[0]):
            return _call_alone(call)
    return run_eager(call)


def _run_compiled(call: ReplicaCall, fn: Function) -> Tree:
    if fn.input_signature is not None:
        args, kwargs = select((call.args, call.kwargs), 0)
        fn.check_signature(args, kwargs)
    if has_uneven((call.args, call.kwargs)):
        return run_uneven(call, fn)
    with stack.driving(None):
        return fn.over(call.strategy)(*call.args, **call.kwargs)


def _run_inside_trace(call: ReplicaCall) -> Tree:
    if isinstance(call.fn, Function):
        call = dataclasses.replace(call, fn=call.fn.python_function)
    if stack.overlay().inside_replica and not call.topology.is_single:
        return run_within(call)
    if not call.topology.is_single:
        return run_traced(call)
    stack.overlay().topologies.add(call.topology)
    return _call_alone(call)


def _call_alone(call: ReplicaCall) -> Tree:
    context = ReplicaContext(call.strategy, Alone(call.strategy))
    with stack.entered(stack.Replica(call.strategy, context, index=0)):
        args, kwargs = select((call.args, call.kwargs), 0)
        return call.fn(*args, **kwargs)
