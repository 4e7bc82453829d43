"""Parses the arguments of a subcommand."""

from __future__ import annotations

import argparse
from typing import NoReturn

from typing_extensions import override


class CommandParser(argparse.ArgumentParser):
    """A parser that reports a wrong argument in one line, without the usage."""

    @override
    def error(self, message: str) -> NoReturn:
        help = f"`{self.prog} --help` lists the arguments."
        self.exit(2, f"{self.prog}: {message}. {help}\n")
