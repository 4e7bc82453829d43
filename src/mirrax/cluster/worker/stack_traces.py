"""Where the main thread of this process is, or was when an exception ended it."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import traceback
from types import TracebackType

# Python's own modules, and those that were installed.
_LIBRARIES = tuple(
    sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")
)
_CLUSTER = os.path.dirname(os.path.dirname(__file__))
_MIRRAX = os.path.dirname(_CLUSTER)
_OWN = (_CLUSTER, threading.__file__)


def describe_main_thread() -> tuple[str, str]:
    """Returns the line that the main thread executes, and its whole stack, as text."""
    identity = threading.main_thread().ident
    frame = sys._current_frames().get(identity or 0)
    if frame is None:
        return "", ""
    stack = traceback.extract_stack(frame)
    # How Mirrax itself waits is of no interest; what led to it is.
    while len(stack) > 1 and stack[-1].filename.startswith(_OWN):
        stack.pop()
    return _describe(stack[-1]), "".join(traceback.format_list(stack))[-10_000:]


def describe_user_line(trace: TracebackType | None) -> str:
    """Returns the last line of the user's own code in a traceback, "" if none is."""
    own = [
        frame
        for frame in traceback.extract_tb(trace)
        if not frame.filename.startswith((_MIRRAX, *_LIBRARIES, "<frozen"))
    ]
    return _describe(own[-1]) if own else ""


def _describe(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}:{frame.lineno} in {frame.name}"
