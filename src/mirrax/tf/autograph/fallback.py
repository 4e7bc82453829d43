"""Functions that cannot be compiled: Python runs them on every call."""

from __future__ import annotations

import logging
import pathlib
from typing import Any

import jax

from mirrax.tf.errors import NotCompilable

_logger = logging.getLogger(__name__)
_told: set[str] = set()

_REFUSALS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.TracerArrayConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
# Of sizes that are traced, of loops of unknown length, and of strings, which are on
# the host; JAX has no class for them.
_TEXTS = (
    "Shapes must be 1D sequences",
    "Reverse-mode differentiation does not work",
    "tensors.host_tensors.HostTensor'>",
)
_LIBRARIES = (str(pathlib.Path(__file__).parents[2]), "-packages/")


def needs_python(error: Exception) -> bool:
    """Returns whether a trace failed because it needs the values of tensors."""
    if isinstance(error, (NotCompilable, *_REFUSALS)):
        return True
    is_refusal = isinstance(error, TypeError | ValueError)
    return is_refusal and any(text in str(error) for text in _TEXTS)


def warn(func: Any, error: Exception, unconverted: str) -> None:
    """Logs once for each place why Python runs a function.

    Args:
        func: The function.
        error: What its trace failed with.
        unconverted: Why its control flow was not converted, if it was not.
    """
    place = _place(error) or _definition(func)
    if place in _told:
        return
    _told.add(place)
    reason = unconverted or str(error).partition("\n")[0]
    _logger.warning(
        "%s cannot be compiled, so its Python runs on every call, with each "
        "`strategy.run` in it compiled on its own. At %s: %s",
        getattr(func, "__name__", repr(func)),
        place,
        reason,
    )


def _definition(func: Any) -> str:
    code = getattr(func, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(func)


def _place(error: Exception) -> str:
    """Returns file:line of the innermost frame that is the user's; empty if none is."""
    found = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not any(part in file for part in _LIBRARIES):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
