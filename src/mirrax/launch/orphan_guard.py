"""Kills the workers when their launcher dies, even by SIGKILL.

A small process of its own. It reads the workers' process groups from its standard
input; end of file without "done" means that the launcher has died.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys

# Runs without importing Mirrax, so that it starts at once.
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


class OrphanGuard:
    """Guards process groups until it is closed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """Adds a process group."""
        self._send(f"{group}\n")

    def close(self) -> None:
        """Stops the guard after all workers have ended."""
        self._send("done\n")
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(line)
            self._process.stdin.flush()
