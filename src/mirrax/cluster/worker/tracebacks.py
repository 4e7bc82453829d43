"""Tracebacks and stacks of a worker as text, for reports and error messages."""

from __future__ import annotations

import os
import re
import sys
import threading
import traceback
from types import FrameType, TracebackType

import jax

from mirrax.errors import JobError, WorkerFailed
from mirrax.user_frames import find_user_frame, hide_frames, shows_all_frames

_CLUSTER = os.path.dirname(os.path.dirname(__file__))
_MIRRAX = os.path.dirname(_CLUSTER)
_COMPILER = os.path.join(os.path.dirname(jax.__file__), "_src", "compiler.py")
# Also one in an exception group, whose own line ends with the number of them.
_ERROR = re.compile(r"(?: +\| (?!.* sub-exceptions?\)$))?(\w.*)")
_OWN = (_CLUSTER, threading.__file__)
_HIDDEN = (f"{_MIRRAX}{os.sep}", "<frozen runpy>")


def summarize(error: BaseException, trace: TracebackType | None) -> str:
    """Returns what a worker prints that stops because of another one; else "".

    The first line says what happened, where this worker was, and the cause. The
    traceback of this worker says nothing about it.
    """
    if not isinstance(error, JobError) or shows_all_frames():
        return ""
    message, _, details = str(error).partition("\n")
    line = describe_user_line(trace)
    if line:
        message += f" Stopped at {line}."
    cause = find_error_line(details) if isinstance(error, WorkerFailed) else ""
    if cause:
        message += f" The cause is {cause}"
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    return f"{kind}: {message}\n{details}".rstrip()


def find_error_line(text: str) -> str:
    r"""Returns the line with the error in the last traceback of a text, or "".

    >>> find_error_line("Traceback (most recent call last):\n  ...\nKeyError: 1\nNote")
    'KeyError: 1'
    """
    _, header, after = text.rpartition("Traceback (most recent call last):\n")
    lines = after.splitlines() if header else []
    found = filter(None, map(_ERROR.match, lines))
    return next((match[1] for match in found), "")


def hide_own_frames(error: BaseException) -> None:
    """Removes Mirrax' frames from the tracebacks of an error and of its causes.

    A traceback that has no others stays as it is.
    """
    hide_frames(
        error, lambda each, _: not each.tb_frame.f_code.co_filename.startswith(_HIDDEN)
    )


def is_compiling() -> bool:
    """Returns whether the main thread is inside JAX's compiler."""
    frame = _main_frame()
    while frame is not None and frame.f_code.co_filename != _COMPILER:
        frame = frame.f_back
    return frame is not None


def describe_main_thread() -> tuple[str, str]:
    """Returns the main thread's current line and its stack, as text."""
    frame = _main_frame()
    if frame is None:
        return "", ""
    stack = traceback.extract_stack(frame)
    # Drop the frames in which Mirrax itself waits.
    while len(stack) > 1 and stack[-1].filename.startswith(_OWN):
        stack.pop()
    return _describe(stack[-1]), "".join(traceback.format_list(stack))[-10_000:]


def describe_user_line(trace: TracebackType | None) -> str:
    """Returns the last line of user code in a traceback; "" if there is none."""
    frames = reversed(traceback.extract_tb(trace))
    found = find_user_frame((frame.filename, frame) for frame in frames)
    return "" if found is None else _describe(found)


def _main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)


def _describe(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}:{frame.lineno} in {frame.name}"
