"""The manifest of a checkpoint: its version, its order, and what is in it.

Written last and replaced atomically, so a checkpoint with a manifest is complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import google_crc32c

from mirrax.errors import CheckpointDamagedError, NotFoundError

NAME = "mirrax-manifest"
NEW = "mirrax-manifest-new"
_VERSION = 2


def is_complete(path: pathlib.Path) -> bool:
    """Returns whether `path` has a complete checkpoint."""
    # `Path.is_file` raises for a name that is too long.
    return os.path.isfile(path / NAME)


def read(path: pathlib.Path) -> Any:
    """Reads a manifest; raises unless it is whole and of this version."""
    manifest = _read_any(path)
    version = manifest["version"]
    if version != _VERSION:
        raise CheckpointDamagedError(
            f"'{path}' was written by another version of Mirrax. Received: "
            f"version {version!r}; this one reads {_VERSION}."
        )
    return manifest


def order_of(path: pathlib.Path) -> int:
    """Returns a sort key: higher for checkpoints saved later."""
    try:
        return int(read(path)["order"])
    except (OSError, KeyError, ValueError, TypeError):
        # Nearly the same, unless the file was copied.
        with contextlib.suppress(OSError):
            return (path / NAME).stat().st_mtime_ns
        return 0


def has_other_version(path: pathlib.Path) -> bool:
    """Returns whether another version of Mirrax has written the manifest."""
    try:
        return bool(_read_any(path)["version"] != _VERSION)
    except CheckpointDamagedError:
        return False


def replace(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    """Writes a manifest, which is the moment when a new checkpoint becomes valid."""
    body = json.dumps({"version": _VERSION, **content}).encode()
    new = path / NEW
    with new.open("wb") as stream:
        stream.write(_checksum_line(body) + body)
        stream.flush()
        os.fsync(stream.fileno())
    sync_folder(path)
    os.replace(new, path / NAME)


def sync_folder(folder: pathlib.Path) -> None:
    """Writes the names in a folder to disk, so that a power failure loses none."""
    # Not all file systems can, and a folder may be unreadable.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def damaged_error(path: pathlib.Path, reason: str) -> CheckpointDamagedError:
    """Returns the error for a checkpoint that is complete and cannot be read."""
    return CheckpointDamagedError(
        f"The checkpoint at '{path}' cannot be read, although it was completed. "
        f"Received: {reason}. Restore an older one."
    )


def _read_any(path: pathlib.Path) -> Any:
    """Reads a manifest that has a version, whichever it is."""
    try:
        line, end, body = (path / NAME).read_bytes().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"There is no complete checkpoint at '{path}'. Received: a path that "
            f"{'is no directory' if not path.is_dir() else 'was not completed'}. "
            "`mirrax.train.latest_checkpoint(directory)` finds the newest one."
        ) from None
    except OSError as error:
        raise damaged_error(path, str(error)) from error
    if line + end != _checksum_line(body):
        raise damaged_error(path, f"other bits than were written in {NAME}")
    try:
        manifest = json.loads(body)
        manifest["version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged_error(path, f"no manifest: {error!r}") from error
    return manifest


def _checksum_line(body: bytes) -> bytes:
    return b"%08x\n" % google_crc32c.value(body)
