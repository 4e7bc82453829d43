"""Whether objects are as they were when they were saved."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from mirrax.errors import CheckpointMismatchError
from mirrax.train.contents import Entry

COUNTER = "save_counter"
"""The name under which a checkpoint keeps how many were saved."""


def group_of(name: str) -> str:
    """Returns the name of the object that a value belongs to."""
    return name.rpartition("/")[0]


def require_match(
    path: pathlib.Path | None,
    entries: Mapping[str, Entry],
    values: Mapping[str, Any],
    partial: bool,
) -> None:
    """Raises one error that lists everything in which objects and values differ.

    Args:
        path: The checkpoint; None for one that was read before.
        entries: What the objects hold, by name.
        values: What was saved.
        partial: Whether objects may hold what was not saved.
    """
    differences = []
    for name, entry in entries.items():
        if name in values:
            difference = entry.difference(values[name])
            if difference:
                differences.append(f"'{name}' {difference}")
        elif not partial and name != COUNTER:
            differences.append(f"'{name}' was not saved")
    if differences:
        where = "the checkpoint" if path is None else f"'{path}'"
        raise CheckpointMismatchError(
            f"Objects must be as they were when they were saved. Received: {where}, "
            "which differs in:\n  "
            + "\n  ".join(differences)
            + "\nNothing was restored. Make the objects as they were, or use "
            "`restore(path, partial=True)` for those that were not saved."
        )
