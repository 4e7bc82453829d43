"""Stacks of the main thread as text, for error messages."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import traceback
from types import TracebackType

# The standard library and installed packages.
_LIBRARIES = tuple(
    sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")
)
_CLUSTER = os.path.dirname(os.path.dirname(__file__))
_MIRRAX = os.path.dirname(_CLUSTER)
_OWN = (_CLUSTER, threading.__file__)


def describe_main_thread() -> tuple[str, str]:
    """Returns the main thread's current line and its stack, as text."""
    identity = threading.main_thread().ident
    frame = sys._current_frames().get(identity or 0)
    if frame is None:
        return "", ""
    stack = traceback.extract_stack(frame)
    # Drop the frames in which Mirrax itself waits.
    while len(stack) > 1 and stack[-1].filename.startswith(_OWN):
        stack.pop()
    return _describe(stack[-1]), "".join(traceback.format_list(stack))[-10_000:]


def describe_user_line(trace: TracebackType | None) -> str:
    """Returns the last line of user code in a traceback; "" if there is none."""
    own = [
        frame
        for frame in traceback.extract_tb(trace)
        if not frame.filename.startswith((_MIRRAX, *_LIBRARIES, "<frozen"))
    ]
    return _describe(own[-1]) if own else ""


def _describe(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}:{frame.lineno} in {frame.name}"
