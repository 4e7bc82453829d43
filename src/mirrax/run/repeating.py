"""Operations that a tape does once more for a gradient, without their callbacks.

What calls back into Python prints, counts or reads data. It happens when the operation
does; the gradient goes on with what came back then.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from mirrax.jax_internals import ClosedJaxpr, Jaxpr, JaxprEqn, Operation
from mirrax.run.callbacks import CALLBACKS, has_callbacks
from mirrax.run.jaxprs import (
    bind,
    called_jaxpr,
    initial_values,
    inner_jaxprs,
    read,
)

# Calls that a derivative sees through; others have a derivative of their own, or may
# run what they call several times.
_PLAIN_CALLS = ("jit", "pjit", "closed_call", "core_call")

Results = list[Sequence[Any]]
"""What each callback gave, in the order of the program."""

_Call = Callable[[JaxprEqn, list[Any]], Sequence[Any]]


def repeatable(operation: Operation) -> Callable[..., Any]:
    """Returns what does `operation`, and runs its callbacks at the first time only."""
    if operation.primitive.name in CALLBACKS:
        return _Callback(operation)
    programs = list(inner_jaxprs(operation))
    if not any(map(_has_callbacks, programs)):
        return operation
    called = operation.params.get("jaxpr")
    if operation.primitive.name in _PLAIN_CALLS and isinstance(called, ClosedJaxpr):
        return _Program(called)
    return _Silenced(operation)


class _Callback:
    """A call of a Python function."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._results: Sequence[Any] | None = None

    def __call__(self, *values: Any) -> Any:
        if self._results is None:
            self._results = list(self._operation(*values))
            return self._results
        return _recalled(self._results, values)


class _Program:
    """A program with callbacks in it."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self._versions = _versions(closed)
        self._results: Results | None = None

    def __call__(self, *values: Any) -> Any:
        if self._results is None:
            outputs, self._results = self._versions.first(values)
            return outputs
        return self._versions.again(values, self._results)


class _Silenced:
    """A loop, a choice or the like, with callbacks in it."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._is_done = False

    def __call__(self, *values: Any) -> Any:
        if not self._is_done:
            self._is_done = True
            return self._operation(*values)
        params = {k: _silenced(v) for k, v in self._operation.params.items()}
        return Operation(self._operation.primitive, params)(*values)


class _Versions(NamedTuple):
    """The two ways to run a program with callbacks, compiled."""

    first: Any
    again: Any


# Few programs call back, and each is asked for at every step.
@functools.lru_cache(maxsize=64)
def _versions(closed: ClosedJaxpr) -> _Versions:
    def first(values: Sequence[Any]) -> tuple[list[Any], Results]:
        results: Results = []

        def call(eqn: JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
            results.append(bind(eqn, inputs, eqn.params))
            return results[-1]

        return _evaluate(closed, values, call, lambda eqn: eqn), results

    def again(values: Sequence[Any], results: Results) -> list[Any]:
        left = iter(results)

        def call(_: JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
            return _recalled(next(left), inputs)

        return _evaluate(closed, values, call, _silenced_equation)

    return _Versions(jax.jit(first), jax.jit(again))


def _evaluate(
    closed: ClosedJaxpr,
    inputs: Sequence[Any],
    call: _Call,
    changed: Callable[[JaxprEqn], JaxprEqn],
) -> list[Any]:
    """Evaluates a program, with `call` for callbacks, and other equations changed."""
    values = initial_values(closed, inputs)
    for eqn in closed.jaxpr.eqns:
        own = [read(values, atom) for atom in eqn.invars]
        called = called_jaxpr(eqn) if eqn.primitive.name in _PLAIN_CALLS else None
        if eqn.primitive.name in CALLBACKS:
            outputs = call(eqn, own)
        elif called is not None and _has_callbacks(called.jaxpr):
            outputs = _evaluate(called, own, call, changed)
        else:
            outputs = bind(eqn, own, changed(eqn).params)
        values.update(zip(eqn.outvars, outputs, strict=True))
    return [read(values, atom) for atom in closed.jaxpr.outvars]


def _recalled(results: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
    """Returns what a callback gave, which has no derivative."""

    @jax.custom_jvp
    def given(*_: Any) -> list[Any]:
        return list(results)

    def refuse(primals: Any, tangents: Any) -> Any:
        if not all(isinstance(t, SymbolicZero) for t in tangents):
            raise ValueError(
                "A callback into Python has no derivative. Received: one whose "
                "arguments depend on a source of the gradient. Give it `jax.lax.stop_"
                "gradient(x)`, or wrap it with `jax.custom_vjp`."
            )
        outputs = given(*primals)
        return outputs, [jnp.zeros_like(x) for x in outputs]

    given.defjvp(refuse, symbolic_zeros=True)
    return given(*inputs) if results else []


_known: weakref.WeakKeyDictionary[Jaxpr, bool] = weakref.WeakKeyDictionary()


def _has_callbacks(jaxpr: Jaxpr) -> bool:
    found = _known.get(jaxpr)
    if found is None:
        found = _known[jaxpr] = has_callbacks(jaxpr)
    return found


def _silenced_equation(eqn: JaxprEqn) -> JaxprEqn:
    if not any(map(_has_callbacks, inner_jaxprs(eqn))):
        return eqn
    params = {name: _silenced(value) for name, value in eqn.params.items()}
    changed: JaxprEqn = eqn.replace(params=params)
    effects = [inner.effects for inner in inner_jaxprs(changed)]
    return changed.replace(effects=frozenset().union(*effects))  # type: ignore[no-any-return]


def _silenced(parameter: Any) -> Any:
    """Returns programs among the parameters without callbacks that give nothing."""
    if isinstance(parameter, ClosedJaxpr):
        return ClosedJaxpr(_silenced(parameter.jaxpr), parameter.consts)
    if isinstance(parameter, Jaxpr):
        eqns = list(_without_silent(parameter))
        effects = frozenset().union(*(eqn.effects for eqn in eqns))
        return parameter.replace(eqns=eqns, effects=effects)
    # Not a named tuple, such as the dimension numbers of a convolution.
    if type(parameter) is tuple:
        return tuple(_silenced(item) for item in parameter)
    return parameter


def _without_silent(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name not in CALLBACKS:
            yield _silenced_equation(eqn)
        elif eqn.outvars:
            if eqn.primitive.name == "io_callback":
                raise RuntimeError(
                    "A `GradientTape` in eager code goes through operations once more "
                    "for a gradient, and cannot repeat an `io_callback` that gives a "
                    "value inside of a scan, cond, while or a function with its own "
                    "derivative. Compile the step with `@mirrax.function`, or call "
                    "back outside of it."
                )
            yield eqn
