"""Standard output and standard error, which a program may have closed."""

from __future__ import annotations

import contextlib
import os
import sys


def flush_output() -> None:
    """Writes what is buffered, if it can be written."""
    for stream in (sys.stdout, sys.stderr):
        # None: the program was started without it. ValueError: it was closed.
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()


def drop_unwritable_output() -> None:
    """Writes what is buffered; drops the rest, which would change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
