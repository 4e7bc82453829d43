"""Finds the user's own code: neither Mirrax, nor Python, nor an installed package.

Leaves frames of Mirrax out of tracebacks, too.
"""

from __future__ import annotations

import functools
import os
import pathlib
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import TypeVar

import jax

T = TypeVar("T")

FULL_TRACEBACK = "MIRRAX_FULL_TRACEBACK"
"""The environment variable that shows all frames of tracebacks."""

_OURS = tuple(
    f"{pathlib.Path(file).parent}{os.sep}" for file in (__file__, jax.__file__)
)
# Python calls generated code "<string>".
_PYTHON = (f"{sysconfig.get_path('stdlib')}{os.sep}", "<string>", "<frozen")
_UNKNOWN = "an unknown place"
_PACKAGES = {"site-packages", "dist-packages"}


@functools.lru_cache(maxsize=4096)
def is_user_code(file: str) -> bool:
    """Returns whether a file is part of the user's program, and of no library."""
    return not file.startswith((*_OURS, *_PYTHON)) and not _is_in_package(file)


def _is_in_package(file: str) -> bool:
    return not _PACKAGES.isdisjoint(file.split(os.sep))


def find_user_frame(frames: Iterable[tuple[str, T]]) -> T | None:
    """Returns the innermost frame of the user's; without one, that of a package.

    The user's program may be an installed package itself.

    Args:
        frames: The file of each frame, and anything about it; the innermost first.
    """
    in_package: T | None = None
    for file, frame in frames:
        if is_user_code(file):
            return frame
        if in_package is None and _is_in_package(file) and not file.startswith(_OURS):
            in_package = frame
    return in_package


def caller() -> str:
    """Returns file:line of the user's call that led here."""
    return of_frame(sys._getframe(1))


def of_frame(frame: FrameType | None) -> str:
    """Returns file:line of the innermost frame of the user's, from this one on."""
    return _UNKNOWN if frame is None else _location(traceback.walk_stack(frame))


def warn(message: str) -> None:
    """Warns, and names the user's line that led here."""
    frames = enumerate(traceback.walk_stack(sys._getframe(1)), start=2)
    levels = ((frame.f_code.co_filename, level) for level, (frame, _) in frames)
    warnings.warn(message, stacklevel=find_user_frame(levels) or 2)


def origin(error: BaseException) -> str:
    """Returns file:line of the innermost frame of the user's in a traceback."""
    return _location(reversed(list(traceback.walk_tb(error.__traceback__))))


def _location(frames: Iterable[tuple[FrameType, int]]) -> str:
    files = ((frame.f_code.co_filename, line) for frame, line in frames)
    return find_user_frame((file, f"{file}:{line}") for file, line in files) or _UNKNOWN


def shows_all_frames() -> bool:
    """Returns whether tracebacks are to be left as they are."""
    return os.environ.get(FULL_TRACEBACK, "0") not in ("", "0")


def shorten_traceback(error: BaseException) -> None:
    """Leaves out frames of Mirrax, but the first one, and the one that raised."""
    hide_frames(error, _is_shown)


def _is_shown(each: TracebackType, is_first: bool) -> bool:
    is_end = is_first or each.tb_next is None
    return is_end or not each.tb_frame.f_code.co_filename.startswith(_OURS[0])


def hide_frames(
    error: BaseException, is_shown: Callable[[TracebackType, bool], bool]
) -> None:
    """Leaves frames out of the tracebacks of an error, of its causes and contexts.

    A traceback of which nothing would be left stays as it is.

    Args:
        is_shown: Is told of each entry, and whether it is the first.
    """
    seen: set[int] = set()
    related: list[BaseException | None] = [] if shows_all_frames() else [error]
    while related:
        each = related.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = _without_hidden(each.__traceback__, is_shown)
            related += [each.__cause__, each.__context__]


def _without_hidden(
    trace: TracebackType | None, is_shown: Callable[[TracebackType, bool], bool]
) -> TracebackType | None:
    kept = []
    each = trace
    while each is not None:
        if is_shown(each, each is trace):
            kept.append(each)
        each = each.tb_next
    result: TracebackType | None = None
    for each in reversed(kept):
        result = TracebackType(result, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return result or trace
