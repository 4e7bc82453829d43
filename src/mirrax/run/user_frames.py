"""Where in the user's program a call was made."""

from __future__ import annotations

import os
import pathlib
import sys
from types import FrameType

from mirrax._jax.jaxprs import JaxprEqn, places_of

_PACKAGE = f"{pathlib.Path(__file__).parents[1]}{os.sep}"
_SKIPPED = (_PACKAGE, "/jax/_src/", "<string>")


def caller() -> str:
    """Returns file:line of the innermost frame that is not ours or JAX'."""
    return of_frame(sys._getframe(1))


def of_frame(frame: FrameType | None) -> str:
    """Returns file:line of the innermost frame from here that is not ours or JAX'."""
    while frame is not None and frame.f_back is not None:
        file = frame.f_code.co_filename
        if not _is_skipped(file):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown place"


def of_equation(equation: JaxprEqn) -> str:
    """Returns file:line of the user's code that a traced operation comes from."""
    places = (p for p in places_of(equation) if not _is_skipped(p))
    return next(places, "an unknown place")


def is_users(file: str) -> bool:
    """Returns whether a file is part of the user's program, and of no library."""
    return not _is_skipped(file) and "-packages/" not in file


def _is_skipped(file: str) -> bool:
    return any(part in file for part in _SKIPPED)


def origin(error: BaseException) -> str:
    """Returns file:line of the innermost frame of the user's in a traceback."""
    found = "an unknown place"
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not _is_skipped(file):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
