"""Locks of folders, between threads and processes."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import pathlib
import time
from collections.abc import Iterator

_logger = logging.getLogger(__name__)

# A writer that was stopped, for example by a debugger, must not block others forever.
LOCK_SECONDS = 60.0


@contextlib.contextmanager
def locked(folder: pathlib.Path, seconds: float, make: bool = False) -> Iterator[bool]:
    """Lets nobody else write there, such as the job before a restart.

    Yields whether it could: not all file systems have locks.

    Args:
        seconds: How long to wait for others before it raises TimeoutError.
        make: Whether to make the folder, also if others remove it meanwhile.
    """
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        while True:
            if make:
                folder.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = stack.enter_context(_opened(folder))
                is_locked = _lock(descriptor, deadline)
                opened = os.fstat(descriptor)
                if not is_locked or os.path.samestat(opened, folder.stat()):
                    break
            except FileNotFoundError:
                if not make:
                    raise
            if time.monotonic() > deadline:
                raise TimeoutError("another process is removing it")
        yield is_locked


@contextlib.contextmanager
def _opened(folder: pathlib.Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        # Closing is not enough if a child process has inherited the descriptor.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _lock(descriptor: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError("another process is writing there") from None
            time.sleep(0.02)
        except OSError as error:
            _logger.debug("The file system cannot lock a folder: %s", error)
            return False
        else:
            return True
