"""The command `mirrax`: imports and runs a subcommand."""

from __future__ import annotations

import argparse
import importlib
import os
import pathlib
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

from typing_extensions import override

_SOURCES = pathlib.Path(__file__).parents[2]

# Each module has a `main(arguments) -> exit code` and is imported on demand. `tf/` can
# be deleted, and its subcommand with it.
_MODULES = {
    "launch": ("mirrax.launch.launch_command", "starts a script on several workers"),
    "tf": ("mirrax.tf.__main__", "runs a TensorFlow program unchanged"),
    "migrate": (
        "mirrax.tf.migration.migrate",
        "reports which parts of a TensorFlow program work",
    ),
    "doctor": ("mirrax.launch.doctor", "checks this machine and its cluster"),
}

_HELP = "`mirrax SUBCOMMAND --help` describes each."

SUBCOMMANDS = {
    name: (module, text)
    for name, (module, text) in _MODULES.items()
    if (_SOURCES / f"{module.replace('.', '/')}.py").exists()
}


class CommandParser(argparse.ArgumentParser):
    """A parser that reports a wrong argument in one line, without the usage."""

    @override
    def error(self, message: str) -> NoReturn:
        help = f"`{self.prog} --help` lists the arguments."
        self.exit(2, f"{self.prog}: {message}. {help}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `mirrax SUBCOMMAND ...` and returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["tf"]:
        # A user's program, whose errors are its own.
        return _run(words)
    try:
        try:
            return _run(words)
        finally:
            print(end="", flush=True)
    except BrokenPipeError:
        # Whoever reads the output, such as `head`, wants no more of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE


def _run(words: Sequence[str]) -> int:
    if words and words[0] in SUBCOMMANDS:
        module, _ = SUBCOMMANDS[words[0]]
        return importlib.import_module(module).main(words[1:])
    if words[:1] in (["-h"], ["--help"]):
        print(_usage())
        return 0
    if words[:1] == ["--version"]:
        print(f"mirrax {version('mirrax')}")
        return 0
    if words:
        error = (
            f"mirrax: The first word must be one of: {', '.join(SUBCOMMANDS)}. "
            f"Received: {words[0]!r}. `mirrax --help` describes them."
        )
    else:
        error = _usage()
    print(error, file=sys.stderr)
    return 2


def _usage() -> str:
    lines = [f"  mirrax {name:8} {text}" for name, (_, text) in SUBCOMMANDS.items()]
    return "\n".join(["Usage:", *lines, "  mirrax --version", "", _HELP])
