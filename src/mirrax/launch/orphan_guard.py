"""Ends the workers when their launcher is gone, whatever ended it.

A small process of its own, because the launcher may be killed without a chance to act.
It learns of each worker's process group on its standard input, whose end without a
last word means that the launcher has died.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys

# Runs without Mirrax, so that it is there in an instant.
_PROGRAM = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
groups = []
for line in sys.stdin:
    if line == "done\\n":
        os._exit(0)
    groups.append(int(line))
for number, seconds in ((signal.SIGTERM, 1.5), (signal.SIGKILL, 0)):
    for group in groups:
        try:
            os.killpg(group, number)
        except OSError:
            pass
    time.sleep(seconds)
"""


class Guardian:
    """Watches over process groups until it is closed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """Puts a process group under its protection."""
        self._tell(f"{group}\n")

    def close(self) -> None:
        """Ends the protection: the workers have ended in good order."""
        self._tell("done\n")
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(line)
            self._process.stdin.flush()
