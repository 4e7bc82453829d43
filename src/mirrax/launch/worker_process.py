"""One worker process: its start, its signals and its exit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

from mirrax.launch.worker_output import WorkerOutput


def describe_code(code: int | None) -> str:
    """Returns an exit code, negative after a signal, as text.

    >>> describe_code(-9)
    'killed by SIGKILL'
    """
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


class WorkerProcess:
    """A worker process, running or ended."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: WorkerOutput,
    ) -> None:
        self.name = output.name
        self.output = output
        self.was_running = False
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(
            target=output.read, args=(self._process.stdout,), daemon=True
        )
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
        if self.was_running:
            return "was still running, and was killed by the launcher"
        code = self._process.poll()
        if code == 0:
            return "exit code 0, before the others were done"
        return describe_code(code)

    def signal(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.was_running = self._process.poll() is None
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def finish(self, timeout: float = 10.0) -> None:
        """Waits for the last lines of an ended process."""
        # A child of the worker may hold its output open.
        self._reader.join(timeout)
