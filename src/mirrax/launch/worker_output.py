"""The output of workers: lines, and the progress bar of one of them."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import threading
from collections.abc import Callable

# Bars go back to the start of their line; nested ones also go up by a line.
_MOVES = re.compile("(\r\n|\n|\r|\x1b\\[A)")
_ERASE_LINE = "\r\x1b[K"
_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")


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


class Console:
    """Standard output: lines, and on a terminal one progress bar below them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bar = ""

    def show_line(self, line: str) -> None:
        """Prints a line atomically, above the bar."""
        with self._lock:
            erase = _ERASE_LINE if self._bar else ""
            _write(f"{erase}{line}\n{self._bar}")

    def show_bar(self, bar: str) -> None:
        """Draws a bar in place of the last one; only on a terminal."""
        if sys.stdout is None or not sys.stdout.isatty():
            return
        with self._lock:
            self._bar = cut(bar, shutil.get_terminal_size().columns - 1)
            _write(f"{_ERASE_LINE}{self._bar}")


def cut(bar: str, columns: int) -> str:
    """Returns as much of a bar as fits; all its colors, which take no room.

    >>> cut("loss 4.5", 4)
    'loss'
    """
    parts = _COLOR.split(bar)
    for position in range(0, len(parts), 2):
        parts[position] = parts[position][: max(columns, 0)]
        columns -= len(parts[position])
    return "".join(parts)


def _write(text: str) -> None:
    """Writes to standard output, if any; a terminal that is gone ends no worker."""
    if sys.stdout is None:
        return
    encoding = sys.stdout.encoding or "utf-8"
    shown = text.encode(encoding, errors="backslashreplace").decode(encoding)
    with contextlib.suppress(OSError):
        sys.stdout.write(shown)
        sys.stdout.flush()


CONSOLE = Console()
