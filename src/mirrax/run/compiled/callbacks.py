"""Errors that callbacks raise while a program runs.

XLA stops only the device whose callback raised. The others would wait in the next
collective until XLA ends the process. So callbacks are wrapped: an error is recorded,
the callback returns zeros, and the call raises the error when the program has ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mirrax._jax.jaxprs import (
    CALLBACKS,
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    all_equations,
    changed_params,
)
from mirrax._jax.traces import is_in_callback

_WRAPPED = {"pure_callback", "io_callback", "debug_callback"}


class Failures:
    """The errors of callbacks in the current call."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []

    def raise_first(self) -> None:
        jax.effects_barrier()
        if self._errors:
            error = self._errors[0]
            self._errors.clear()
            error.add_note(
                "[mirrax] raised by a callback in a compiled function; variables are "
                "as they were before the call"
            )
            raise error

    def add(self, error: BaseException) -> None:
        self._errors.append(error)


@dataclasses.dataclass(frozen=True)
class _Catching:
    """A callback that gives zeros where it would raise."""

    callback: Callable[..., Any]
    result_avals: tuple[Any, ...]
    failures: Failures = dataclasses.field(repr=False)

    def __call__(self, *args: Any) -> Any:
        try:
            return self.callback(*args)
        except BaseException as error:
            self.failures.add(error)
            return [np.zeros(aval.shape, aval.dtype) for aval in self.result_avals]


def refuse_in_callback() -> None:
    """Raises in a callback, which cannot wait for other callbacks."""
    if is_in_callback():
        raise RuntimeError(
            "A callback cannot call a function that has callbacks itself, such as a "
            "print: it would wait there forever. Received: a call of such a function "
            "in a callback. Call it after the program, or leave its callbacks out."
        )


def has_callbacks(jaxpr: Jaxpr) -> bool:
    """Returns whether a program calls Python while it runs."""
    return any(eqn.primitive.name in CALLBACKS for eqn in all_equations(jaxpr))


def catch_failures(closed: ClosedJaxpr, failures: Failures) -> ClosedJaxpr:
    """Returns a program whose callbacks report to `failures` what they raise."""
    eqns = [_caught(eqn, failures) for eqn in closed.jaxpr.eqns]
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)


def _caught(eqn: JaxprEqn, failures: Failures) -> JaxprEqn:
    params = changed_params(eqn, lambda inner: catch_failures(inner, failures))
    if eqn.primitive.name in _WRAPPED:
        avals = tuple(eqn.params.get("result_avals", ()))
        params["callback"] = _Catching(eqn.params["callback"], avals, failures)
    return eqn.replace(params=params)
