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
import json
import logging
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import google_crc32c
import numpy as np

from mirrax.errors import CheckpointDamagedError, CheckpointWriteError, NotFoundError
from mirrax.train.checkpoints import array_file
from mirrax.train.checkpoints.folder_lock import locked

_logger = logging.getLogger(__name__)

_VERSION = 2
_MANIFEST = "mirrax-manifest"
_NEW_MANIFEST = "mirrax-manifest-new"
_ARRAYS = re.compile(r"mirrax-arrays-\d+")
# A writer that was stopped, for example by a debugger, must not block others forever.
_LOCK_SECONDS = 60.0


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
    file = _arrays_file(path, order)
    with locked(path, _LOCK_SECONDS, make=True):
        try:
            described = array_file.write(file, saved.arrays)
            _replace_manifest(path, order, described, saved)
        except Exception:
            _remove_files(path, [file])
            raise
        _sync_folder(path)
        _sync_folder(path.parent)
        _remove_files(path, [old for old in _arrays_in(path) if old != file])


def read(path: pathlib.Path) -> CheckpointData:
    """Reads a checkpoint and verifies its checksums."""
    manifest = _read_manifest(path)
    while True:
        try:
            order = int(manifest["order"])
            arrays = array_file.read(_arrays_file(path, order), manifest["arrays"])
            plain, aliases = dict(manifest["plain"]), dict(manifest["aliases"])
            return CheckpointData(arrays, plain, aliases, order)
        except Exception as error:
            # A program that trains may have replaced it meanwhile.
            newer = _read_manifest(path)
            if newer == manifest:
                raise _damaged_error(path, str(error)) from error
            manifest = newer


def read_plain(path: pathlib.Path) -> Mapping[str, Any]:
    """Reads the JSON values of a checkpoint."""
    return _read_manifest(path)["plain"]


def is_complete(path: pathlib.Path) -> bool:
    """Returns whether `path` has a complete checkpoint."""
    # `Path.is_file` raises for a name that is too long.
    return os.path.isfile(path / _MANIFEST)


def remove_partial(path: pathlib.Path) -> None:
    """Removes an incomplete checkpoint, unless somebody may be writing it."""
    with contextlib.suppress(OSError), locked(path, seconds=0) as is_locked:
        if is_locked and _is_partial(path):
            _logger.warning("Removing the incomplete checkpoint '%s'", path)
            _remove_files(path, _arrays_in(path))


def remove(path: pathlib.Path) -> None:
    """Removes a checkpoint, the manifest first, unless its version is unknown.

    Of a link only the link: others may use what it leads to.
    """
    try:
        if path.is_symlink():
            path.unlink()
            return
        with locked(path, _LOCK_SECONDS):
            if _has_other_version(path):
                return
            (path / _MANIFEST).unlink()
            _remove_files(path, _arrays_in(path))
    except FileNotFoundError:
        # Another job has removed it.
        return
    except OSError as error:
        _logger.warning("The old checkpoint '%s' cannot be removed: %s", path, error)


def _replace_manifest(
    path: pathlib.Path,
    order: int,
    described: Mapping[str, list[Any]],
    saved: CheckpointData,
) -> None:
    manifest = {
        "version": _VERSION,
        "order": order,
        "arrays": described,
        "plain": dict(saved.plain),
        "aliases": dict(saved.aliases),
    }
    body = json.dumps(manifest).encode()
    new = path / _NEW_MANIFEST
    with new.open("wb") as stream:
        stream.write(_checksum_line(body) + body)
        stream.flush()
        os.fsync(stream.fileno())
    _sync_folder(path)
    os.replace(new, path / _MANIFEST)


def _sync_folder(folder: pathlib.Path) -> None:
    """Writes the names in a folder to disk, so that a power failure loses none."""
    # Not all file systems can, and a folder may be unreadable.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read_manifest(path: pathlib.Path) -> Any:
    manifest = _read_any_manifest(path)
    version = manifest["version"]
    if version != _VERSION:
        raise CheckpointDamagedError(
            f"'{path}' was written by another version of Mirrax. Received: "
            f"version {version!r}; this one reads {_VERSION}."
        )
    return manifest


def _has_other_version(path: pathlib.Path) -> bool:
    try:
        return bool(_read_any_manifest(path)["version"] != _VERSION)
    except CheckpointDamagedError:
        return False


def _read_any_manifest(path: pathlib.Path) -> Any:
    """Reads a manifest that has a version, whichever it is."""
    try:
        line, end, body = (path / _MANIFEST).read_bytes().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"There is no complete checkpoint at '{path}'. Received: a path that "
            f"{'is no directory' if not path.is_dir() else 'was not completed'}. "
            "`mirrax.train.latest_checkpoint(directory)` finds the newest one."
        ) from None
    except OSError as error:
        raise _damaged_error(path, str(error)) from error
    if line + end != _checksum_line(body):
        raise _damaged_error(path, f"other bits than were written in {_MANIFEST}")
    try:
        manifest = json.loads(body)
        manifest["version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged_error(path, f"no manifest: {error!r}") from error
    return manifest


def _arrays_file(path: pathlib.Path, order: int) -> pathlib.Path:
    return path / f"mirrax-arrays-{order}"


def _checksum_line(body: bytes) -> bytes:
    return b"%08x\n" % google_crc32c.value(body)


def order_of(path: pathlib.Path) -> int:
    """Returns a sort key: higher for checkpoints saved later."""
    try:
        return int(_read_manifest(path)["order"])
    except (OSError, KeyError, ValueError, TypeError):
        # Nearly the same, unless the file was copied.
        with contextlib.suppress(OSError):
            return (path / _MANIFEST).stat().st_mtime_ns
        return 0


def _is_partial(path: pathlib.Path) -> bool:
    """Returns whether `path` has files of an incomplete checkpoint, and no others."""
    names = os.listdir(path)
    return bool(names) and not is_complete(path) and not _find_others(names)


def _find_others(names: Iterable[str]) -> list[str]:
    own = {_MANIFEST, _NEW_MANIFEST}
    return sorted(n for n in names if n not in own and not _ARRAYS.fullmatch(n))


def _arrays_in(path: pathlib.Path) -> list[pathlib.Path]:
    return [child for child in path.iterdir() if _ARRAYS.fullmatch(child.name)]


def check_replaceable(path: pathlib.Path) -> None:
    """Raises if there is anything else than a checkpoint, complete or not."""
    if is_complete(path):
        return
    try:
        others = _find_others(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.lexists(path):
            return
        what = "a file"
    else:
        if not others:
            return
        what = f"a folder with {others[:3]}"
    raise CheckpointWriteError(
        "A checkpoint can replace nothing but another checkpoint. Received: "
        f"'{path}', where there is {what}. Nothing was changed. Choose another path."
    )


def _remove_files(path: pathlib.Path, arrays: Iterable[pathlib.Path]) -> None:
    """Removes arrays from a directory, and the directory if it is then empty."""
    for file in (*arrays, path / _NEW_MANIFEST):
        with contextlib.suppress(OSError):
            file.unlink()
    with contextlib.suppress(OSError):
        path.rmdir()


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
    older = " The older checkpoint there is still whole." if is_complete(path) else ""
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


def _damaged_error(path: pathlib.Path, reason: str) -> CheckpointDamagedError:
    return CheckpointDamagedError(
        f"The checkpoint at '{path}' cannot be read, although it was completed. "
        f"Received: {reason}. Restore an older one."
    )
