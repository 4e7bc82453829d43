"""The output of one worker: shown line by line, logged, searched for its error."""

from __future__ import annotations

import codecs
import contextlib
import os
import pathlib
import re
from collections.abc import Callable
from typing import IO

# Enough for a long traceback.
_KEPT_LINES = 2000
_TRACEBACK = "Traceback (most recent call last):"
_GROUP = f"  + Exception Group {_TRACEBACK}"
# An exception in a group; the line of the group itself ends with their number.
_IN_GROUP = re.compile(r" +\| (?!.*Traceback \()(?!.* sub-exceptions?\)$)(\w.*)")
# Python prints these without a traceback when the program itself cannot be compiled.
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_OWN = "mirrax.errors."
# Bars go back to the start of their line; nested ones also go up by a line.
_MOVES = re.compile("(\r\n|\n|\r|\x1b\\[A)")
# A longer line is shown as several, so that output without newlines fills no memory.
_MAX_LINE = 1 << 16


class WorkerOutput:
    """The output of a worker, of which the last lines are kept.

    Args:
        name: The name of the worker, before each line that is shown.
        show: Called with each line.
        log: A file for the whole output.
        show_bar: Called with each state of a progress bar, and with "" at its end.
        appends: Whether to keep what the file already has.
    """

    def __init__(
        self,
        name: str,
        show: Callable[[str], None],
        log: pathlib.Path | None = None,
        show_bar: Callable[[str], None] = lambda _: None,
        appends: bool = False,
    ) -> None:
        self.name = name
        self.lines: list[str] = []
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

    def read(self, stream: IO[bytes]) -> None:
        """Reads and handles the output, until its end."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        splitter = OutputSplitter(self._keep_line, self._show_bar)
        with stream:
            while data := os.read(stream.fileno(), 1 << 16):
                splitter.feed(decoder.decode(data))
        splitter.close()
        if self._log is not None:
            self._log.close()

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
                # In between Python says "The above exception ..." or "During ...".
                before = lines[max(0, index - 3) : index]
                if not (error and any(x.endswith("exception:") for x in before)):
                    first = index
                error = ""
            # A worker whose job has failed prints no traceback.
            elif line.startswith(_OWN) and (error or first == len(lines)):
                error, first = line, index
            elif first < len(lines) and not error:
                if is_group and (found := _IN_GROUP.match(line)):
                    error = found[1]
                elif line[:1].strip():
                    error = line
        return error, "\n".join(lines[first:])

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


class OutputSplitter:
    r"""Splits a stream of output into lines and the states of progress bars.

    Args:
        show_line: Called with each line. The last state of a bar is a line.
        show_bar: Called at once with each state of a bar, with "" at its end.

    >>> splitter = OutputSplitter(lambda line: print("line", line), print)
    >>> splitter.feed("start\n\r10%")
    line start
    10%
    """

    def __init__(
        self, show_line: Callable[[str], object], show_bar: Callable[[str], object]
    ) -> None:
        self._show_line = show_line
        self._show_bar = show_bar
        self._text = ""
        self._is_bar = False
        self._is_at_start = True
        # Of nested bars: how often the cursor went up, and the bars it has left above.
        self._rows_up = 0
        self._above: list[str] = []

    def feed(self, text: str) -> None:
        for part in _MOVES.split(text):
            if part == "\r":
                self._is_bar = self._is_at_start = True
            elif part == "\x1b[A":
                self._rows_up += 1
                self._text = self._above.pop() if self._above else ""
            elif part in ("\n", "\r\n"):
                self._end_line()
            elif part:
                self._text = part if self._is_at_start else self._text + part
                self._is_at_start = False
                if len(self._text) > _MAX_LINE:
                    self._end_line()
        if self._is_bar:
            self._show_bar(self._text.rstrip())

    def close(self) -> None:
        """Takes what has no newline at the end of the output as a line."""
        self._rows_up = 0
        if self._text or self._above:
            self._end_line()

    def _end_line(self) -> None:
        if self._rows_up:
            self._rows_up -= 1
            self._above.append(self._text)
        elif self._is_bar:
            self._show_bar("")
            self._is_bar = False
            for text in (*self._above, self._text):
                if text.strip():
                    self._show_line(text)
            self._above.clear()
        else:
            self._show_line(self._text)
        self._text = ""
        self._is_at_start = True
