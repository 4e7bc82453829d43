"""`mirrax migrate FILE`: checks which names of a TensorFlow program `mirrax.tf` has.

    python -m mirrax.tf.migration.migrate train.py

Prints a line for each TensorFlow name in the program: `ok`, `differs` with the
difference, or `missing` with a replacement; and `change` for what Keras 3 wants in
another form. Exits with 1 if a name is missing or a change needs thought.
"""

from __future__ import annotations

import argparse
import ast
import collections
import itertools
import pathlib
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import mirrax.tf
from mirrax.tf.migration.differences import difference_of
from mirrax.tf.migration.findings import (
    CHANGE,
    DIFFERS,
    MISSING,
    OK,
    Finding,
    apply,
)
from mirrax.tf.migration.habits import ABOUT_DTYPES, find_habits
from mirrax.tf.migration.keras_changes import NEEDS_TENSORFLOW, find_changes
from mirrax.tf.migration.replacements import NEEDING_PACKAGES
from mirrax.tf.migration.source_names import ProgramNames
from mirrax.tf.namespaces.missing_names import lookup, replacement_of


def examine(source: str, filename: str = "<program>") -> list[Finding]:
    r"""Returns a finding for each use of TensorFlow in a program, by line.

    >>> for finding in examine("import tensorflow as tf\ntf.raw_ops.Add(x, y)"):
    ...     print(finding.line, finding.kind)
    1 import
    2 missing
    """
    names = ProgramNames(source, filename)
    others = (*find_habits(names.tree), *find_changes(names.tree))
    return sorted({*_imports(names), *_uses(names), *others})


def judge(name: str) -> tuple[str, str]:
    """Returns whether `mirrax.tf` has a TensorFlow name, and advice.

    >>> judge("tf.reduce_sum")
    ('ok', '')
    """
    needs = lookup(name, NEEDS_TENSORFLOW)
    if needs is not None:
        return MISSING, f"It needs TensorFlow. Use {needs}."
    value: Any = mirrax.tf
    for part in name.split(".")[1:]:
        try:
            value = getattr(value, part)
        except AttributeError:
            if isinstance(value, np.dtype):
                return DIFFERS, ABOUT_DTYPES
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
        if options.write:
            findings = _write(path, findings)
        totals.update(finding.kind for finding in findings)
        for finding in findings:
            if not options.problems or finding.kind in (DIFFERS, MISSING, CHANGE):
                print(f"{path}:{finding.line}: {finding}")
    print(
        f"{totals[OK] + totals[DIFFERS] + totals[MISSING]} uses: {totals[OK]} work, "
        f"{totals[DIFFERS]} differ, {totals[MISSING]} missing; {totals[CHANGE]} "
        "changes for Keras 3."
    )
    return 1 if totals[MISSING] or totals[CHANGE] else 0


def _write(path: pathlib.Path, findings: list[Finding]) -> list[Finding]:
    """Makes the mechanical edits in a file; returns the findings that remain."""
    edits = [finding.edit for finding in findings if finding.edit is not None]
    if edits:
        original = path.read_bytes()
        backup = _unused(path.with_name(f"{path.name}.orig"))
        backup.write_bytes(original)
        path.write_bytes(apply(original.decode(), edits).encode())
        print(f"{path}: {len(edits)} edits; the original is {backup}")
    return [finding for finding in findings if finding.edit is None]


def _unused(path: pathlib.Path) -> pathlib.Path:
    """Returns `path`, or with a number at its end the first name that is not taken."""
    numbered = (path.with_name(f"{path.name}{n}") for n in itertools.count(1))
    return next(p for p in itertools.chain([path], numbered) if not p.exists())


def _parse(argv: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        prog="mirrax migrate",
        description="Checks which names of a TensorFlow program `mirrax.tf` has.",
    )
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument(
        "--problems", action="store_true", help="hide names that work unchanged"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="make the mechanical changes in the files, which are kept as FILE.orig",
    )
    return parser.parse_args(argv)


def _imports(names: ProgramNames) -> Iterator[Finding]:
    yield from names.imports
    for node in ast.walk(names.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _other_package(node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from _other_package(node.lineno, node.module)
            package, *parts = node.module.split(".")
            for alias in node.names if package == "tensorflow" else ():
                name = ".".join(["tf", *parts, alias.name])
                kind, advice = judge(name) if alias.name != "*" else (OK, "")
                if kind == MISSING:
                    yield Finding(node.lineno, MISSING, name, advice)


def _other_package(line: int, module: str) -> Iterator[Finding]:
    package = module.partition(".")[0]
    if package in NEEDING_PACKAGES:
        advice = f"It needs TensorFlow. Use {NEEDING_PACKAGES[package]}."
        yield Finding(line, MISSING, package, advice)


def _uses(names: ProgramNames) -> Iterator[Finding]:
    for use in names.uses:
        kind, advice = judge(use.name)
        yield Finding(use.line, kind, use.name, advice)


def _is_stand_in(value: Any) -> bool:
    """Returns whether this is a placeholder for a missing class or function."""
    if value is mirrax.tf.compat.v1.disable_eager_execution:
        return True
    return (
        isinstance(value, type)
        and value.__module__ == "mirrax.tf.namespaces.missing_names"
    )


def _has_parts(value: Any) -> bool:
    """Returns whether attributes of `value` are TensorFlow names."""
    return isinstance(value, type | types.ModuleType | np.dtype)


if __name__ == "__main__":
    sys.exit(main())
