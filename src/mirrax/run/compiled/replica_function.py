"""A function on the replicas of a strategy: one trace, mapped over all of them."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from typing_extensions import override

from mirrax import trees
from mirrax.run.compiled.arguments import CallArguments
from mirrax.run.compiled.compiled_call import CompiledCall
from mirrax.run.compiled.mapped_trace import trace_replica
from mirrax.run.compiled.spmd_communicator import call_alone
from mirrax.run.compiled.tracing import Traced, trace_program
from mirrax.run.eager.scheduler import run_eager
from mirrax.run.replica_context import ReplicaCall
from mirrax.trees import Tree
from mirrax.variables import foreign_libraries

_ADVICE = (
    "With parts of different shapes, such as a last partial batch, all replicas must "
    "make the same calls in loops and branches of JAX. Let these not depend on the "
    "size of a part, use `mirrax.scan`, `mirrax.cond`, ... in place of JAX's, or make "
    "the parts equal."
)


class ReplicaFunction(CompiledCall):
    """A `mirrax.function` on every replica; keeps alive neither it nor the strategy.

    The strategy owns it, because its programs refer to variables of the strategy. If
    the function owned it, it would keep every strategy alive that it ever ran on.
    """

    def __init__(self, fn: Any, donated: Sequence[int], strategy: Any) -> None:
        super().__init__(fn.name, donated, strategy.topology)
        # Both are alive during calls.
        self._fn: Callable[[], Any] = weakref.ref(fn)
        self._strategy: Callable[[], Any] = weakref.ref(strategy)

    def _replica_call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> ReplicaCall:
        strategy, fn = self._strategy(), self._fn().fn
        return ReplicaCall(strategy, strategy.collective, fn, tuple(args), kwargs)

    @override
    def _trace(self, given: CallArguments) -> Traced:
        call = self._replica_call((), {})
        with call.strategy.scope():
            if call.topology.is_single:

                def called(*args: Any, **kwargs: Any) -> Tree:
                    return call_alone(
                        dataclasses.replace(call, args=args, kwargs=kwargs)
                    )

                return trace_program(called, given)
            call = dataclasses.replace(call, fn=_with_arrays(call.fn))
            return trace_replica(call, given)

    @override
    def _call_python(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        call = self._replica_call(args, kwargs)
        return call.strategy.run(call.fn, args, kwargs)

    @override
    def falls_back_to_python(self, error: Exception) -> bool:
        return self._fn().falls_back_to_python(error)

    @override
    def _run_untraced(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tree:
        call = self._replica_call(args, kwargs)
        with call.strategy.scope():
            return run_eager(call, _ADVICE)

    @override
    def fingerprint(self, leaves: list[Any]) -> Any:
        return foreign_libraries.fingerprint(self._fn(), leaves)


def _with_arrays(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `fn` as a function that returns arrays in place of numbers."""

    def called(*args: Any, **kwargs: Any) -> Tree:
        return trees.map_leaves(_as_array, fn(*args, **kwargs))

    return called


def _as_array(leaf: Any) -> Any:
    is_number = type(leaf) in (bool, int, float, complex)
    return jnp.asarray(leaf) if is_number else leaf
