"""One worker process: its output and its exit."""

from __future__ import annotations

import codecs
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from mirrax.launch.worker_output import OutputSplitter

# Enough for a long traceback.
_KEPT_LINES = 2000
_TRACEBACK = "Traceback (most recent call last):"
_GROUP = f"  + Exception Group {_TRACEBACK}"
# An exception in a group; the line of the group itself ends with their number.
_IN_GROUP = re.compile(r" +\| (?!.*Traceback \()(?!.* sub-exceptions?\)$)(\w.*)")
# Python prints these without a traceback when the program itself cannot be compiled.
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_OWN = "mirrax.errors."


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
    """A worker process, running or ended.

    Args:
        show: Called with each line of output, prefixed with the name.
        show_bar: The same with each state of a progress bar, and with "" at its end.
        log: A file for the whole output.
        appends: Whether to keep what the file already has.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        show: Callable[[str], None],
        log: pathlib.Path | None = None,
        show_bar: Callable[[str], None] = lambda _: None,
        appends: bool = False,
    ) -> None:
        self.name = name
        self.lines: list[str] = []
        self.was_running = False
        self._show: Callable[[str], None] = lambda line: show(f"[{name}] {line}")
        self._show_bar = lambda bar: show_bar(bar and f"[{name}] {bar}")
        self._log: IO[str] | None = None
        if log is not None:
            try:
                self._log = log.open(
                    "a" if appends else "w", encoding="utf-8", errors="backslashreplace"
                )
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

    def find_error(self) -> tuple[str, str]:
        """Returns the line of the last exception, and the output from its traceback on.

        The tracebacks of the exceptions that caused it are included.
        """
        lines = self.lines
        if lines and lines[-1].startswith(_SYNTAX):
            return lines[-1], ""
        error, first, is_group = "", len(lines), False
        for index, line in enumerate(lines):
            if line in (_TRACEBACK, _GROUP):
                is_group = line == _GROUP
                before = lines[max(0, index - 3) : index]
                if not (error and any(x.endswith("exception:") for x in before)):
                    first = index
                error = ""
            # A worker whose job has failed prints no traceback.
            elif line.startswith(_OWN) and (error or first == len(lines)):
                error, first = line, index
            elif first < len(lines) and not error:
                found = _IN_GROUP.match(line) if is_group else None
                error = found[1] if found else line if line[:1].strip() else ""
        return error, "\n".join(lines[first:])

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        splitter = OutputSplitter(self._keep_line, self._show_bar)
        with stream:
            while data := os.read(stream.fileno(), 1 << 16):
                splitter.feed(decoder.decode(data))
        splitter.close()
        if self._log is not None:
            self._log.close()

    def _keep_line(self, line: str) -> None:
        self.lines.append(line)
        del self.lines[:-_KEPT_LINES]
        self._write_log(line)
        self._show(line)

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
