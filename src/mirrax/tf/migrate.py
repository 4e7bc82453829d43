"""`mirrax migrate FILE`: checks which names of a TensorFlow program `mirrax.tf` has.

    python -m mirrax.tf.migrate train.py

Prints a line for each TensorFlow name in the program: `ok`, `differs` with the
difference, or `missing` with a replacement. Exits with 1 if a name is missing.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import mirrax.tf
from mirrax.tf.differences import difference_of
from mirrax.tf.missing_names import replacement_of
from mirrax.tf.source_names import ProgramNames

OK, DIFFERS, MISSING, IMPORT = "ok", "differs", "missing", "import"

_ABOUT_SHAPES = (
    "only variables and elements of datasets have it; for other tensors use "
    "`x.get_shape()`, or the shape as a tuple"
)


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    """The result for one name at one line of a program."""

    line: int
    kind: str
    subject: str
    advice: str = ""

    def __str__(self) -> str:
        text = f"{self.kind:<7} {self.subject}"
        return f"{text}: {self.advice}" if self.advice else text


def examine(source: str, filename: str = "<program>") -> list[Finding]:
    r"""Returns a finding for each use of TensorFlow in a program, by line.

    >>> for finding in examine("import tensorflow as tf\ntf.saved_model.save(x, y)"):
    ...     print(finding.line, finding.kind)
    1 import
    2 missing
    """
    names = ProgramNames(source, filename)
    return sorted({*_imports(names), *_uses(names), *_habits(names)})


def judge(name: str) -> tuple[str, str]:
    """Returns whether `mirrax.tf` has a TensorFlow name, and advice.

    >>> judge("tf.reduce_sum")
    ('ok', '')
    """
    value: Any = mirrax.tf
    for part in name.split(".")[1:]:
        try:
            value = getattr(value, part)
        except AttributeError:
            return MISSING, replacement_of(name)
        except ImportError as error:
            return DIFFERS, str(error)
        if _is_stand_in(value):
            return MISSING, replacement_of(name)
        if not _has_parts(value):
            break
    note = difference_of(name)
    return (DIFFERS, note) if note else (OK, "")


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the findings of each file; returns 1 if a name is missing."""
    options = _parse(argv)
    totals: collections.Counter[str] = collections.Counter()
    for path in options.files:
        try:
            findings = examine(path.read_text(), str(path))
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            print(
                f"{path} cannot be read as a Python program: {error}", file=sys.stderr
            )
            return 2
        totals.update(finding.kind for finding in findings)
        for finding in findings:
            if not options.problems or finding.kind in (DIFFERS, MISSING):
                print(f"{path}:{finding.line}: {finding}")
    print(
        f"{totals[OK] + totals[DIFFERS] + totals[MISSING]} uses: {totals[OK]} work, "
        f"{totals[DIFFERS]} differ, {totals[MISSING]} missing."
    )
    return 1 if totals[MISSING] else 0


def _parse(argv: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        prog="mirrax migrate",
        description="Checks which names of a TensorFlow program `mirrax.tf` has.",
    )
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument(
        "--problems", action="store_true", help="hide names that work unchanged"
    )
    return parser.parse_args(argv)


def _imports(names: ProgramNames) -> Iterator[Finding]:
    for found in names.imports:
        advice = f"write `{found.replacement}`"
        yield Finding(found.line, IMPORT, found.statement, advice)


def _uses(names: ProgramNames) -> Iterator[Finding]:
    for use in names.uses:
        kind, advice = judge(use.name)
        yield Finding(use.line, kind, use.name, advice)


def _habits(names: ProgramNames) -> Iterator[Finding]:
    for habit in names.habits:
        yield Finding(habit.line, DIFFERS, habit.text, _ABOUT_SHAPES)


def _is_stand_in(value: Any) -> bool:
    """Returns whether this is a placeholder for a missing class."""
    return isinstance(value, type) and value.__module__ == "mirrax.tf.missing_names"


def _has_parts(value: Any) -> bool:
    """Returns whether attributes of `value` are TensorFlow names."""
    return isinstance(value, type) or type(value).__name__ == "module"


if __name__ == "__main__":
    sys.exit(main())
