"""Kills the workers when their launcher dies, even by SIGKILL.

A small process of its own. It reads the workers' process groups, and a folder to
remove, from its standard input; end of file without "done" means that the launcher has
died.
"""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys

# Runs without importing Mirrax, so that it starts at once.
_PROGRAM = """
import os, shutil, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
groups, folders = [], []
for line in sys.stdin:
    if line == "done\\n":
        os._exit(0)
    if line.startswith("/"):
        folders.append(line[:-1])
    else:
        groups.append(int(line))
for number, seconds in ((signal.SIGTERM, 1.5), (signal.SIGKILL, 0)):
    for group in groups:
        try:
            os.killpg(group, number)
        except OSError:
            pass
    time.sleep(seconds)
for folder in folders:
    shutil.rmtree(folder, ignore_errors=True)
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
        self._send(f"{group}\n")

    def remove(self, folder: pathlib.Path) -> None:
        """Adds a folder of the launcher."""
        self._send(f"{folder.absolute()}\n")

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
