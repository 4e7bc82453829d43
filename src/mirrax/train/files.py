"""Checkpoints as directories, written by Orbax.

A directory gets its name when everything in it is complete. What a process left behind
that ended in the middle has another name, and is never read.
"""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import re
import shutil
from collections.abc import Mapping
from typing import Any

import google_crc32c
import jax
import numpy as np

from mirrax.errors import CheckpointDamagedError, NotFoundError

_logger = logging.getLogger(__name__)

_VERSION = 1
_NUMBERED = re.compile(r"(?P<name>.+)-(?P<number>\d+)")
_PARTIAL = ".orbax-checkpoint-tmp"
_REMOVED = f"{_PARTIAL}-removed"

_warned: set[pathlib.Path] = set()


@dataclasses.dataclass(frozen=True)
class Saved:
    """What a checkpoint holds.

    Args:
        arrays: Arrays by name.
        plain: What JSON can hold, by name.
    """

    arrays: Mapping[str, np.ndarray[Any, Any]]
    plain: Mapping[str, Any]


class Writer:
    """Writes checkpoints, one at a time, in the background if so wished."""

    def __init__(self) -> None:
        self._checkpointer: Any = None

    def write(self, path: pathlib.Path, saved: Saved, wait: bool) -> None:
        """Writes a checkpoint; waits for an earlier one first, and raises its error."""
        ocp = _orbax()
        self.wait()
        self._checkpointer = _checkpointer(ocp)
        path.parent.mkdir(parents=True, exist_ok=True)
        contents = {"facts": ocp.args.JsonSave(_facts(saved))}
        stored = {name: array for name, array in saved.arrays.items() if array.size}
        if stored:
            contents["arrays"] = ocp.args.StandardSave(stored)
        self._checkpointer.save(path, args=ocp.args.Composite(**contents), force=True)
        if wait:
            self.wait()

    def wait(self) -> None:
        """Waits until what was written is complete; raises what went wrong."""
        checkpointer, self._checkpointer = self._checkpointer, None
        if checkpointer is None:
            return
        try:
            checkpointer.wait_until_finished()
        finally:
            checkpointer.close()


def read(path: pathlib.Path) -> Saved:
    """Returns what the checkpoint at `path` holds, bit by bit as it was saved."""
    ocp = _orbax()
    if not is_whole(path):
        raise NotFoundError(
            f"There is no whole checkpoint at '{path}'. Received: a path that "
            f"{'is no directory' if not path.exists() else 'was not completed'}. "
            "`mirrax.train.latest_checkpoint(directory)` finds the newest whole one."
        )
    checkpointer = _checkpointer(ocp)
    try:
        facts = _restore(checkpointer, path, facts=ocp.args.JsonRestore()).facts
        if facts.get("version") != _VERSION:
            raise CheckpointDamagedError(
                f"'{path}' was written by another version of Mirrax. Received: "
                f"version {facts.get('version')}; this one reads {_VERSION}."
            )
        arrays = {
            name: np.zeros(fact["shape"], np.dtype(fact["dtype"]))
            for name, fact in facts["arrays"].items()
            if 0 in fact["shape"]
        }
        if len(arrays) < len(facts["arrays"]):
            restored = ocp.args.StandardRestore()
            arrays.update(_restore(checkpointer, path, arrays=restored).arrays)
    finally:
        checkpointer.close()
    _check(path, arrays, facts["arrays"])
    return Saved(arrays, facts["plain"])


def is_whole(path: pathlib.Path) -> bool:
    """Returns whether there is a checkpoint at `path` that was completed."""
    return (
        path.is_dir()
        and _PARTIAL not in path.name
        and (path / "facts").is_dir()
        and bool(_orbax().utils.is_checkpoint_finalized(path))
    )


def numbered(directory: pathlib.Path, name: str | None = None) -> list[pathlib.Path]:
    """Returns the whole checkpoints in a directory, oldest first.

    Args:
        directory: Where they are.
        name: The part before the number; None for any.
    """
    if not directory.is_dir():
        return []
    entries = [path for path in directory.iterdir() if path.is_dir()]
    _warn_of_partial([path for path in entries if _PARTIAL in path.name])
    found = []
    for path in entries:
        match = _NUMBERED.fullmatch(path.name)
        if match and name in (None, match["name"]) and is_whole(path):
            found.append((match["name"], int(match["number"]), path))
    if len({prefix for prefix, _, _ in found}) > 1:
        return sorted((p for _, _, p in found), key=lambda p: p.stat().st_mtime_ns)
    return [path for _, _, path in sorted(found)]


def number_of(path: pathlib.Path) -> int:
    """Returns the number at the end of a checkpoint's name; 0 if there is none."""
    match = _NUMBERED.fullmatch(path.name)
    return int(match["number"]) if match else 0


def remove(path: pathlib.Path) -> None:
    """Removes a checkpoint; one that is half removed never looks whole."""
    doomed = path.with_name(path.name + _REMOVED)
    path.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def remove_partial(directory: pathlib.Path, name: str) -> None:
    """Removes what interrupted saves left; only for who writes there."""
    for path in directory.glob(f"{name}-*{_PARTIAL}*"):
        shutil.rmtree(path, ignore_errors=True)


def _orbax() -> Any:
    """Returns the library, which is big, and needed for nothing else."""
    try:
        import orbax.checkpoint as ocp
    except ImportError as error:
        raise ImportError(
            "Checkpoints are written by Orbax, which cannot be imported. Received: "
            f"{error}. Install it: pip install 'mirrax[checkpoint]'."
        ) from error
    return ocp


def _checkpointer(ocp: Any) -> Any:
    own = jax.process_index()
    # Each process works alone; Orbax must not wait for the others.
    alone = ocp.options.MultiprocessingOptions(
        primary_host=own,
        active_processes={own},
        barrier_sync_key_prefix=f"mirrax{own}",
    )
    handler = ocp.CompositeCheckpointHandler(
        composite_options=ocp.CompositeOptions(multiprocessing_options=alone),
        arrays=ocp.StandardCheckpointHandler(multiprocessing_options=alone),
        facts=ocp.JsonCheckpointHandler(multiprocessing_options=alone),
    )
    return ocp.AsyncCheckpointer(handler, multiprocessing_options=alone)


def _restore(checkpointer: Any, path: pathlib.Path, **items: Any) -> Any:
    try:
        return checkpointer.restore(path, args=_orbax().args.Composite(**items))
    except Exception as error:
        raise CheckpointDamagedError(
            f"The checkpoint at '{path}' cannot be read, although it was completed. "
            f"Received: {type(error).__name__}: {error}. Restore an older one."
        ) from error


def _facts(saved: Saved) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "arrays": {
            name: {
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "crc32c": _crc(array),
            }
            for name, array in saved.arrays.items()
        },
        "plain": dict(saved.plain),
    }


def _crc(array: np.ndarray[Any, Any]) -> int:
    return int(google_crc32c.value(np.ascontiguousarray(array).tobytes()))


def _check(
    path: pathlib.Path, arrays: Mapping[str, Any], facts: Mapping[str, Any]
) -> None:
    damaged = [
        name
        for name, fact in facts.items()
        if name not in arrays or _crc(arrays[name]) != fact["crc32c"]
    ]
    if damaged:
        raise CheckpointDamagedError(
            f"The checkpoint at '{path}' is not as it was saved. Received: other bits "
            f"than were written for {', '.join(sorted(damaged))}. Restore an older one."
        )


def _warn_of_partial(paths: list[pathlib.Path]) -> None:
    new = sorted(set(paths) - _warned)
    _warned.update(new)
    if new:
        _logger.warning(
            "Ignoring %d directories of checkpoints that were not completed: %s",
            len(new),
            ", ".join(str(path) for path in new),
        )
