"""Restores values into objects, if all of them fit."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from mirrax.errors import CheckpointMismatchError
from mirrax.train.checkpoints.saved_objects import COUNTER, all_entries
from mirrax.train.checkpoints.saved_values import Entry, Rebuild


def find_entries(
    objects: dict[str, Any], values: dict[str, Any], aliases: Mapping[str, str]
) -> dict[str, Entry]:
    """Returns the entries of objects; renames saved values as the objects call them.

    Args:
        aliases: Other names of saved values: alias -> name.
    """
    entries = dict(all_entries(objects))
    for name in entries:
        saved = aliases.get(name)
        if name not in values and saved in values:
            values[name] = values.pop(saved)
    return entries


def start_restore(
    path: pathlib.Path | None,
    entries: Mapping[str, Entry],
    values: Mapping[str, Any],
    partial: bool,
) -> Callable[[], None]:
    """Restores iterators if everything fits, or none; returns an undo function.

    `set_values` does the rest.

    Args:
        path, partial: See `require_match`.
    """
    require_match(path, entries, values, partial)
    before: list[tuple[Entry, Any]] = []

    def undo() -> None:
        for entry, position in before:
            entry.set(position)

    try:
        for name, entry in entries.items():
            if entry.is_position and name in values:
                before.append((entry, entry.get()))
                entry.set(values[name])
    except BaseException:
        undo()
        raise
    return undo


def set_values(entries: Mapping[str, Entry], values: dict[str, Any]) -> None:
    """Restores objects except iterators, and removes used entries from `values`."""
    rebuilds: dict[Rebuild | None, None] = {}
    for name, entry in entries.items():
        if name in values:
            value = values.pop(name)
            if not entry.is_position:
                rebuilds[entry.set(value)] = None
    for rebuild in rebuilds:
        if rebuild is not None:
            rebuild()


def require_match(
    path: pathlib.Path | None,
    entries: Mapping[str, Entry],
    values: Mapping[str, Any],
    partial: bool,
) -> None:
    """Raises one error that lists all mismatches between objects and saved values.

    Args:
        path: The checkpoint; None for one that was read before.
        partial: Whether objects may have values that were not saved.
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
