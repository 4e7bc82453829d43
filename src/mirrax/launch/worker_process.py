"""One worker process: its output and its exit."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO

# Enough for a long traceback.
_KEPT_LINES = 2000
_TRACEBACK = "Traceback (most recent call last):"


class WorkerProcess:
    """A worker process, running or ended.

    Args:
        name: The name of the worker.
        command: The command to run.
        environment: The environment variables of the process.
        show: Called with each line of output.
        log: A file for the whole output.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        show: Callable[[str], None],
        log: pathlib.Path | None = None,
    ) -> None:
        self.name = name
        self.lines: list[str] = []
        self._show = show
        self._log: IO[str] | None = None
        if log is not None:
            try:
                self._log = log.open("w")
            except OSError as error:
                self._warn_of_log(log, error)
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def process_id(self) -> int:
        """The id of the process, and of its process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code as a shell shows it; None while the process runs."""
        code = self._process.poll()
        return 128 - code if code is not None and code < 0 else code

    def describe_exit(self) -> str:
        """Returns how the process ended, as text."""
        code = self._process.poll()
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        if code == 0:
            return "exit code 0, before the others were done"
        return f"exit code {code}"

    def signal(self, number: int) -> None:
        """Sends a signal to the process, if it is running."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kills the process group."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def finish(self, timeout: float = 2.0) -> None:
        """Waits for the last lines of an ended process."""
        # A child of the worker may hold its output open.
        self._reader.join(timeout)

    def find_traceback(self) -> str:
        """Returns the output from the last traceback on, or ""."""
        starts = [i for i, line in enumerate(self.lines) if line == _TRACEBACK]
        if not starts:
            return ""
        # Include the tracebacks of the exceptions that caused it.
        first = starts[-1]
        for start in reversed(starts[:-1]):
            between = self.lines[start:first]
            if not any(line.endswith("exception:") for line in between[-3:]):
                break
            first = start
        return "\n".join(self.lines[first:])

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        with stream:
            for data in stream:
                line = data.decode(errors="replace").rstrip("\r\n")
                self.lines.append(line)
                del self.lines[:-_KEPT_LINES]
                self._show(line)
                self._write_log(line)
        if self._log is not None:
            self._log.close()

    def _write_log(self, line: str) -> None:
        if self._log is None:
            return
        try:
            self._log.write(f"{line}\n")
            self._log.flush()
        except OSError as error:
            self._warn_of_log(self._log.name, error)
            with contextlib.suppress(OSError):
                self._log.close()
            self._log = None

    def _warn_of_log(self, log: object, error: OSError) -> None:
        self._show(
            f"mirrax launch: {log} cannot be written: {error.strerror or error}. More "
            "output of this worker is shown here only."
        )
