"""Keeps freed memory in the process, so that steps do not fetch it again.

By default glibc gives memory back to the system once more than about twice the largest
buffer is free. A small step that exchanges gradients between several workers exceeds
that at its end, and the next one takes each page as a fault: with 4 workers on 2 cores
784-128-10 takes 4 ms in place of 20.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

_KEPT_BYTES = 256 << 20
_LARGEST_KEPT_BUFFER = 32 << 20  # glibc allows no more.
# The numbers of options in glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Lets each arena of glibc keep 256 MiB, unless the user has configured it."""
    if sys.platform != "linux" or is_configured(os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # Absent from musl, for example.
        # Both: setting only one fixes the other at its low default.
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BUFFER)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def is_configured(environment: Mapping[str, str]) -> bool:
    """Returns whether environment variables configure glibc's allocator.

    >>> is_configured({"MALLOC_TRIM_THRESHOLD_": "131072"})
    True
    """
    return "glibc.malloc" in environment.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") for name in environment
    )
