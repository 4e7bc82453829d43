"""Where in the user's program a call was made."""

from __future__ import annotations

import os
import pathlib
import sys

_PACKAGE = f"{pathlib.Path(__file__).parents[1]}{os.sep}"
_SKIPPED = (_PACKAGE, "/jax/_src/", "<string>")


def caller() -> str:
    """Returns file:line of the innermost frame that is not ours or JAX'."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if not any(part in file for part in _SKIPPED):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown place"


def origin(error: BaseException) -> str:
    """Returns file:line of the innermost frame of the user's in a traceback."""
    found = "an unknown place"
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not any(part in file for part in _SKIPPED):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
