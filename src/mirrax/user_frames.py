"""Finds the user's own code: neither Mirrax, nor Python, nor an installed package."""

from __future__ import annotations

import functools
import os
import pathlib
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from types import FrameType
from typing import TypeVar

import jax

T = TypeVar("T")

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


def origin(error: BaseException) -> str:
    """Returns file:line of the innermost frame of the user's in a traceback."""
    return _location(reversed(list(traceback.walk_tb(error.__traceback__))))


def _location(frames: Iterable[tuple[FrameType, int]]) -> str:
    files = ((frame.f_code.co_filename, line) for frame, line in frames)
    return find_user_frame((file, f"{file}:{line}") for file, line in files) or _UNKNOWN
