"""Tables of measurements in documents, and what else the machine was doing."""

from __future__ import annotations

import os
import pathlib

import psutil

_SECONDS = 3.0


def write_table(path: pathlib.Path, maker: str, table: str) -> None:
    """Replaces the table that a program has made in a document."""
    begin, end = f"<!-- made by {maker} -->", f"<!-- end of what {maker} makes -->"
    head, found, rest = path.read_text().partition(begin)
    if not found:
        raise ValueError(
            f"The document needs a place for the table: {begin} in {path}."
        )
    path.write_text(f"{head}{begin}\n{table}\n{end}{rest.partition(end)[2]}")


def measure_other_load() -> float:
    """Returns how busy the cores are at the moment, in percent."""
    return psutil.cpu_percent(_SECONDS)


def describe_machine(before: float, after: float) -> str:
    """Returns the cores, and how busy they were before and after the measurements.

    >>> describe_machine(2.0, 3.4).partition("; ")[2]
    'other programs used 2 % of them before and 3 % after the measurements'
    """
    return (
        f"{os.cpu_count()} cores; other programs used {before:.0f} % of them before "
        f"and {after:.0f} % after the measurements"
    )
