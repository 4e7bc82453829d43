"""Where the main thread of this process is."""

from __future__ import annotations

import os
import sys
import threading
import traceback

_OWN = (os.path.dirname(__file__), threading.__file__)


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
    last = stack[-1]
    line = f"{last.filename}:{last.lineno} in {last.name}"
    return line, "".join(traceback.format_list(stack))[-10_000:]
