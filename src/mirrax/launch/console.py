"""What the launcher prints: the lines of workers, and a progress bar."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import threading

_ERASE_LINE = "\r\x1b[K"
_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")


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
