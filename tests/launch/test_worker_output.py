"""Lines and progress bars of workers, on a terminal and elsewhere."""

import os
import pathlib
import pty
import subprocess
import sys

import pytest

from mirrax.launch.console import CONSOLE, cut
from mirrax.launch.worker_output import OutputSplitter
from tests.launch import scripts

SCRIPT = str(pathlib.Path(scripts.__file__))


def split(*parts):
    seen = []
    splitter = OutputSplitter(
        lambda line: seen.append(("line", line)), lambda bar: seen.append(("bar", bar))
    )
    for part in parts:
        splitter.feed(part)
    splitter.close()
    return seen


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["a\nb", "c\n", "\n"], [("line", "a"), ("line", "bc"), ("line", "")]),
        (["a\r\n"], [("line", "a")]),
        (["end"], [("line", "end")]),
        (
            ["\r1%", "\r2%", "\n"],
            [("bar", "1%"), ("bar", "2%"), ("bar", ""), ("line", "2%")],
        ),
        (
            ["\r1%", "\r  \r", "a\n"],
            [("bar", "1%"), ("bar", ""), ("bar", ""), ("line", "a")],
        ),
        (["\r1%"], [("bar", "1%"), ("bar", ""), ("line", "1%")]),
    ],
    ids=["lines", "carriage_return_and_newline", "no_newline", "bar", "erased", "cut"],
)
def test_output_is_split_into_lines_and_bars(parts, expected):
    assert split(*parts) == expected


@pytest.mark.parametrize("start", ["", "\r"], ids=["line", "bar"])
def test_output_without_newlines_is_shown_in_several_lines(start):
    lines = [t for kind, t in split(start, *["x" * 40_000] * 10) if kind == "line"]
    assert len(lines) > 1
    assert "".join(lines) == "x" * 400_000


@pytest.mark.parametrize("end", ["", "end\n"])
def test_nested_bars_are_the_lines_of_the_outer_one(end):
    updates = [f"\n\rinner {i}\x1b[A" for i in range(3)] + ["\router 1", "\n", end]
    lines = [text for kind, text in split("\router 0", *updates) if kind == "line"]
    assert lines == ["outer 0", "outer 1", *end.split()]


def launch_bar(flag, **streams):
    return subprocess.Popen(
        [sys.executable, "-m", "mirrax.launch", "-n", "2", SCRIPT, "bar", str(flag)],
        stderr=subprocess.PIPE,
        **streams,
    )


def test_bar_of_the_chief_is_drawn_at_once_on_a_terminal(tmp_path):
    reader, terminal = pty.openpty()
    with launch_bar(tmp_path / "flag", stdout=terminal) as process:
        os.close(terminal)
        output = ""
        # The workers wait for the flag, and their bars have no newline yet.
        while "[worker 0] half" not in output or "[worker 1] started" not in output:
            output += os.read(reader, 1000).decode()
        (tmp_path / "flag").touch()
        process.communicate(timeout=240)
    while True:
        try:
            data = os.read(reader, 1000)
        except OSError:
            break
        if not data:
            break
        output += data.decode()
    os.close(reader)
    assert process.returncode == 0
    assert "[worker 1] half" not in output
    assert (
        output.count("[worker 1] full\r\n") == output.count("[worker 0] full\r\n") == 1
    )


def test_bar_is_cut_where_the_line_of_the_terminal_ends():
    assert cut("[worker 0] 100%", 8) == "[worker "
    # Colors take no room, and do not go on after the bar.
    colored = "\x1b[1m8/8\x1b[0m \x1b[32m====\x1b[0m loss: 4.5"
    assert cut(colored, 18) == colored
    assert cut(colored, 6) == "\x1b[1m8/8\x1b[0m \x1b[32m==\x1b[0m"


def test_console_without_standard_output_does_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    CONSOLE.show_line("lost")
    CONSOLE.show_bar("lost")


def test_bars_are_plain_lines_elsewhere(tmp_path):
    (tmp_path / "flag").touch()
    with launch_bar(tmp_path / "flag", stdout=subprocess.PIPE, text=True) as process:
        output, _ = process.communicate(timeout=240)
    assert sorted(output.splitlines()) == [
        f"[worker {i}] {text}" for i in range(2) for text in ("full", "started")
    ]
