"""Finishes background saves when a program ends without waiting for them."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

# In the order in which they were added.
_waits: dict[Callable[[], None], None] = {}
_has_ended = threading.Event()


def is_too_late() -> bool:
    """Returns whether the main program has ended, and Python stops all executors."""
    try:
        _register()
    except RuntimeError:
        return True
    return _has_ended.is_set()


def add(wait: Callable[[], None]) -> None:
    """Calls `wait` at exit; an error that it raises ends the program with code 1."""
    _waits[wait] = None
    if is_too_late():
        wait()


def discard(wait: Callable[[], None]) -> None:
    """Forgets what was added."""
    _waits.pop(wait, None)


@functools.cache
def _register() -> None:
    # `atexit` is too late: Python has stopped all executors by then, also those of
    # Orbax. These functions run in reverse order, so before that of
    # `concurrent.futures`, which has registered its own when it was imported.
    register = getattr(threading, "_register_atexit", atexit.register)
    register(_finish)


def _finish() -> None:
    _has_ended.set()
    for wait in list(_waits):
        try:
            wait()
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            atexit.register(_fail)


def _fail() -> NoReturn:
    """Sets the exit code, which Python has no other means for so late."""
    atexit.unregister(_fail)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(1)
