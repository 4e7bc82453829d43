"""Finishes background saves when a program ends without waiting for them."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable

# In the order in which they were added.
_waits: dict[Callable[[], None], None] = {}


def add(wait: Callable[[], None]) -> None:
    """Calls `wait` at exit; an error that it raises ends the program with code 1."""
    _waits[wait] = None
    # What was registered last runs first: before this process leaves its job.
    atexit.unregister(_finish)
    atexit.register(_finish)


def discard(wait: Callable[[], None]) -> None:
    """Forgets what was added."""
    _waits.pop(wait, None)


def _finish() -> None:
    has_failed = False
    for wait in list(_waits):
        try:
            wait()
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            has_failed = True
    if has_failed:
        # Python has no other means to set the exit code so late.
        atexit.unregister(_finish)
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(1)
