"""Which engine runs a replica function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from mirrax.collectives.reduce import Collective
from mirrax.context import stack
from mirrax.run.eager import run_eager
from mirrax.run.function import Function
from mirrax.run.meeting import Alone
from mirrax.run.replica_context import ReplicaContext
from mirrax.run.spmd import run_traced
from mirrax.run.uneven import has_uneven, run_uneven
from mirrax.trees import Tree
from mirrax.values.regroup import select


def call_for_each_replica(
    strategy: Any,
    collective: Collective,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Tree:
    """Returns the merged results of `fn` on every replica."""
    if not callable(fn):
        raise TypeError(
            "`run` takes a function and its arguments: run(fn, args=(...)). Received: "
            f"fn={fn!r}."
        )
    if stack.overlay() is not None:
        return _run_inside_trace(strategy, collective, _python(fn), args, kwargs)
    driver = stack.driver()
    if driver is not None and not isinstance(fn, Function):
        fn = driver.compiled(fn)
    if isinstance(fn, Function):
        return _run_compiled(strategy, collective, fn, args, kwargs)
    if collective.topology.is_single:
        return _run_alone(strategy, collective, fn, args, kwargs)
    return run_eager(strategy, collective, fn, args, kwargs)


def _run_compiled(
    strategy: Any,
    collective: Collective,
    fn: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Tree:
    if fn.input_signature is not None:
        fn.check_signature(select(args, 0))
    if has_uneven((args, kwargs)):
        return run_uneven(strategy, collective, fn, args, kwargs)
    with stack.driving(None):
        return fn.over(strategy)(*args, **kwargs)


def _run_inside_trace(
    strategy: Any,
    collective: Collective,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Tree:
    if not collective.topology.is_single:
        return run_traced(strategy, collective, fn, args, kwargs)
    stack.overlay().topologies.add(collective.topology)
    return _call_alone(strategy, fn, args, kwargs)


def _run_alone(
    strategy: Any,
    collective: Collective,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Tree:
    with jax.default_device(collective.topology.devices[0]):
        return _call_alone(strategy, fn, args, kwargs)


def _call_alone(
    strategy: Any,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Tree:
    context = ReplicaContext(strategy, Alone(strategy))
    with stack.entered(stack.Replica(strategy, context, index=0)):
        return fn(*select(args, 0), **select(kwargs, 0))


def _python(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn.python_function if isinstance(fn, Function) else fn
