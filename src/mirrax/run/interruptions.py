"""Ctrl-C, kept out of the moment in which variables are between two arrays.

A program overwrites the arrays of the variables that it changes. An interruption after
that, and before the variables have their new arrays, would lose both. Python runs
signal handlers between steps of Python code in the main thread, and nowhere else.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Makes signals wait for the end of the `with` block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _waiting(signal.SIGTERM), _waiting(signal.SIGINT):
        yield


@contextlib.contextmanager
def _waiting(number: signal.Signals) -> Iterator[None]:
    handler = signal.getsignal(number)
    if not callable(handler):
        yield
        return
    came: list[Any] = []
    try:
        signal.signal(number, lambda *_: came.append(number))
        yield
    finally:
        signal.signal(number, handler)
        if came:
            signal.raise_signal(number)
