"""Python that decides on the value of a tensor, which a trace does not have.

`if x > 0:`, `while`, `assert`, `range(n)` need the value of a tensor. While a function
is traced there is none, and JAX refuses. Here it is noticed that this happened, so that
the function can be run by Python instead.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import jax

from mirrax.context import stack
from mirrax.context.guards import MustDrive, NeedsPython
from mirrax.run import user_frames

_logger = logging.getLogger(__name__)

REFUSALS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.TracerArrayConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
"""What JAX raises where it is asked for a value that is not there yet."""

IN_STEPS = (
    "its Python runs on every call, with each `strategy.run` in it compiled on its own"
)
ON_REPLICAS = "it runs operation by operation, on one replica after the other"

_WHAT = "decides in Python on the value of a tensor"
_ADVICE = "Use `tf.cond` and `tf.while_loop` (`jax.lax.cond`, `jax.lax.while_loop`)"

_HINT = (
    "[mirrax] While a function is traced, tensors have no values to decide on. Use "
    "`jax.lax.cond`, `jax.lax.while_loop` or `jnp.where`, or let Python run the "
    "function on every call: `@mirrax.function(python_decisions=True)`."
)

_told: set[tuple[str, str]] = set()


class Decided(MustDrive):
    """A traced function asked for the value of a tensor.

    Args:
        place: Where it did, as file:line.
        what: What it did there.
        advice: What to do to keep it one program.
    """

    def __init__(self, place: str, what: str = _WHAT, advice: str = _ADVICE) -> None:
        super().__init__(place)
        self.place = place
        self.what = what
        self.advice = advice


def noticing(body: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `body` as a function that raises `Decided` where it needs a value."""

    @functools.wraps(body)
    def noticed(*args: Any, **kwargs: Any) -> Any:
        with stack.allowing_python_fallback():
            try:
                return body(*args, **kwargs)
            except NeedsPython as signal:
                place = user_frames.origin(signal)
                raise Decided(place, signal.what, signal.advice) from signal
            except Exception as error:
                if _is_refusal(error):
                    raise Decided(user_frames.origin(error)) from error
                raise

    return noticed


def hinting(body: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `body` as a function whose refusals say what can be done."""

    @functools.wraps(body)
    def hinted(*args: Any, **kwargs: Any) -> Any:
        try:
            return body(*args, **kwargs)
        except Exception as error:
            if _is_refusal(error) and _HINT not in getattr(error, "__notes__", ()):
                error.add_note(_HINT)
            raise

    return hinted


def tell(name: str, decided: Decided, consequence: str) -> None:
    """Logs once for each place what a decision there costs."""
    if (decided.place, consequence) in _told:
        return
    _told.add((decided.place, consequence))
    _logger.warning(
        "%s %s, at %s, so %s. %s to keep it one compiled program.",
        name,
        decided.what,
        decided.place,
        consequence,
        decided.advice,
    )


def _is_refusal(error: Exception) -> bool:
    if isinstance(error, REFUSALS):
        return True
    # Of sizes that are traced; JAX has no class for it.
    text = str(error) if type(error) is TypeError else ""
    return text.startswith("Shapes must be 1D sequences") and "using `jit`" in text
