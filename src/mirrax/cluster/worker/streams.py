"""Standard output and standard error, which a program may have closed."""

from __future__ import annotations

import contextlib
import sys


def flush_output() -> None:
    """Writes what is buffered, if it can be written."""
    for stream in (sys.stdout, sys.stderr):
        # None: the program was started without it. ValueError: it was closed.
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
