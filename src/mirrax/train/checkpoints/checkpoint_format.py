"""Checkpoints as directories.

    <path>/mirrax-arrays-<order>   the bytes of the arrays
    <path>/mirrax-manifest         everything else, with checksums

The manifest is written last and replaced atomically. Until then the previous one is
valid, with its own arrays. So the process can be killed at any moment: either the old
checkpoint or the new one is complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mirrax.errors import CheckpointWriteError
from mirrax.train.checkpoints import array_file, manifest
from mirrax.train.checkpoints.cleanup import remove_files
from mirrax.train.checkpoints.folder_lock import LOCK_SECONDS, locked


@dataclasses.dataclass(frozen=True)
class CheckpointData:
    """The contents of a checkpoint.

    Args:
        plain: JSON values by name.
        aliases: Other names for arrays and values: alias -> name.
        order: A number that no other save has; 0 for what is not saved yet.
    """

    arrays: Mapping[str, np.ndarray[Any, Any]]
    plain: Mapping[str, Any]
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    order: int = 0


def write(path: pathlib.Path, saved: CheckpointData, order: int) -> None:
    """Writes a checkpoint, and removes the older one there.

    Args:
        path: A directory that `check_replaceable` accepts.
        order: A number that is higher than those of all earlier checkpoints.
    """
    file = array_file.path_of(path, order)
    with locked(path, LOCK_SECONDS, make=True):
        try:
            described = array_file.write(file, saved.arrays)
            content = {
                "order": order,
                "arrays": described,
                "plain": dict(saved.plain),
                "aliases": dict(saved.aliases),
            }
            manifest.replace(path, content)
        except FileExistsError:
            # Written by somebody else, and perhaps in use.
            raise
        except Exception:
            remove_files(path, [file])
            raise
        manifest.sync_folder(path)
        manifest.sync_folder(path.parent)
        remove_files(path, [old for old in array_file.find(path) if old != file])


def read(path: pathlib.Path) -> CheckpointData:
    """Reads a checkpoint and verifies its checksums."""
    found = manifest.read(path)
    while True:
        try:
            order = int(found["order"])
            arrays = array_file.read(array_file.path_of(path, order), found["arrays"])
            plain, aliases = dict(found["plain"]), dict(found["aliases"])
            return CheckpointData(arrays, plain, aliases, order)
        except Exception as error:
            # A program that trains may have replaced it meanwhile.
            newer = manifest.read(path)
            if newer == found:
                raise manifest.damaged_error(path, str(error)) from error
            found = newer


def read_plain(path: pathlib.Path) -> Mapping[str, Any]:
    """Reads the JSON values of a checkpoint."""
    return manifest.read(path)["plain"]


@contextlib.contextmanager
def write_errors(path: pathlib.Path) -> Iterator[None]:
    """Turns errors of a save in the `with` block into `CheckpointWriteError`."""
    try:
        yield
    except CheckpointWriteError:
        raise
    except Exception as error:
        raise _write_error(path, error) from error


def _write_error(path: pathlib.Path, error: Exception) -> CheckpointWriteError:
    is_complete = manifest.is_complete(path)
    older = " The older checkpoint there is still whole." if is_complete else ""
    # With an `errno` it is one of the file system.
    if isinstance(error, TimeoutError) and error.errno is None:
        return CheckpointWriteError(
            "Only one process at a time can write a checkpoint to a path. Received: "
            f"'{path}', where {error}.{older} Let it end, or choose another path."
        )
    return CheckpointWriteError(
        "A checkpoint needs a folder with enough space, where this process may write. "
        f"Received: '{path}', where it failed with {type(error).__name__}: {error}."
        f"{older} Free some space, or choose another folder."
    )
