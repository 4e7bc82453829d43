"""Callbacks into Python that raise while a program runs.

XLA can only give up the device on which a callback raised. Others that meet it in a
collective would wait until XLA ends the process. So callbacks are wrapped: an error is
kept, the program goes on with zeros, and the call raises the error at its end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mirrax._jax.jaxprs import ClosedJaxpr, Jaxpr, JaxprEqn, all_equations
from mirrax._jax.traces import is_in_callback

_WRAPPED = {"pure_callback", "io_callback", "debug_callback"}

CALLBACKS = {*_WRAPPED, "buffer_callback", "debug_print"}
"""The operations that call Python while a program runs."""


class Failures:
    """The errors that callbacks raised in the call that is under way."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []

    def raise_first(self) -> None:
        """Waits for all callbacks; raises what the first of them raised."""
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
        """Keeps what a callback raised."""
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
            "A callback of a program runs while the program does, so a function that "
            "has callbacks itself, such as a print, would wait there for ever. "
            "Received: a call of such a function in a callback. Call it after the "
            "program, or leave its callbacks out."
        )


def has_callbacks(jaxpr: Jaxpr) -> bool:
    """Returns whether a program calls Python while it runs."""
    return any(eqn.primitive.name in CALLBACKS for eqn in all_equations(jaxpr))


def catch_failures(closed: ClosedJaxpr, failures: Failures) -> ClosedJaxpr:
    """Returns a program whose callbacks report to `failures` what they raise."""
    return ClosedJaxpr(_read_and_written(closed.jaxpr, failures), closed.consts)


def _read_and_written(jaxpr: Jaxpr, failures: Failures) -> Jaxpr:
    eqns = [_caught(eqn, failures) for eqn in jaxpr.eqns]
    return jaxpr.replace(eqns=eqns)  # type: ignore[no-any-return]


def _caught(eqn: JaxprEqn, failures: Failures) -> JaxprEqn:
    params = {name: _inside(value, failures) for name, value in eqn.params.items()}
    if eqn.primitive.name in _WRAPPED:
        avals = tuple(eqn.params.get("result_avals", ()))
        params["callback"] = _Catching(eqn.params["callback"], avals, failures)
    return eqn.replace(params=params)  # type: ignore[no-any-return]


def _inside(parameter: Any, failures: Failures) -> Any:
    if isinstance(parameter, ClosedJaxpr):
        return catch_failures(parameter, failures)
    if isinstance(parameter, Jaxpr):
        return _read_and_written(parameter, failures)
    # Not a named tuple, such as the dimension numbers of a convolution.
    if type(parameter) is tuple:
        return tuple(_inside(item, failures) for item in parameter)
    return parameter
