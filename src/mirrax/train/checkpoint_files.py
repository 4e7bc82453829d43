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
import fcntl
import json
import logging
import os
import pathlib
import re
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import google_crc32c
import numpy as np

from mirrax.errors import (
    CheckpointDamagedError,
    CheckpointWriteError,
    NotFoundError,
)
from mirrax.train import array_file, unfinished_saves

_logger = logging.getLogger(__name__)

_VERSION = 2
_NUMBERED = re.compile(r"(?P<name>.*)-(?P<number>\d+)")
_MANIFEST = "mirrax-manifest"
_NEW_MANIFEST = "mirrax-manifest-new"
_ARRAYS = "mirrax-arrays-"

_warned: set[pathlib.Path] = set()


@dataclasses.dataclass(frozen=True)
class CheckpointData:
    """The contents of a checkpoint.

    Args:
        arrays: Arrays by name.
        plain: JSON values by name.
        aliases: Other names for them: alias -> name.
        order: A number that no other save has; 0 for what is not saved yet.
    """

    arrays: Mapping[str, np.ndarray[Any, Any]]
    plain: Mapping[str, Any]
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    order: int = 0


class Writer:
    """Writes checkpoints in a thread, one at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: CheckpointWriteError | None = None

    def start(self, path: pathlib.Path, saved: CheckpointData) -> None:
        """Starts writing a checkpoint; raises at once if the path is not usable."""
        self.wait()
        try:
            _check_replaceable(path)
            others = filter(is_complete, _find_numbered(path.parent, None))
            # Later than all others, even if the clock was set back.
            order = max(time.time_ns(), 0, *(_order_of(other) + 1 for other in others))
            path.mkdir(parents=True, exist_ok=True)
        except CheckpointWriteError:
            raise
        except OSError as error:
            raise _write_error(path, error) from error
        unfinished_saves.add(self.wait)
        work = path, order, saved
        try:
            thread = threading.Thread(
                target=self._write, args=work, name="mirrax-saving"
            )
            thread.start()
        except RuntimeError:
            # The main program has ended, and some versions of Python start no more.
            self._write(*work)
        else:
            self._thread = thread

    def wait(self) -> None:
        """Waits until the checkpoint is written; raises the error of writing."""
        if self._thread is not None:
            self._thread.join()
        unfinished_saves.discard(self.wait)
        self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _write(self, path: pathlib.Path, order: int, saved: CheckpointData) -> None:
        file = _arrays_file(path, order)
        try:
            with _locked(path):
                described = array_file.write(file, saved.arrays)
                _write_manifest(path, order, described, saved)
                _remove_arrays(path, [old for old in _arrays_in(path) if old != file])
        except Exception as error:
            self._error = _write_error(path, error)
            self._error.__cause__ = error
            _remove_arrays(path, [file])


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
    plain: Mapping[str, Any] = _read_manifest(path)["plain"]
    return plain


def require_writable(directory: pathlib.Path) -> None:
    """Makes the directory; raises unless a checkpoint can be written there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise _write_error(directory, error) from error


def is_complete(path: pathlib.Path) -> bool:
    """Returns whether `path` has a complete checkpoint."""
    # `Path.is_file` raises for a name that is too long.
    return os.path.isfile(path / _MANIFEST)


def numbered(directory: pathlib.Path, name: str | None = None) -> list[pathlib.Path]:
    """Returns the complete checkpoints in a directory, in the order of saving.

    Args:
        directory: The directory.
        name: The part before the number; None for any.
    """
    found = _find_numbered(directory, name)
    new = sorted({path for path in found if _is_abandoned(path)} - _warned)
    _warned.update(new)
    if new:
        _logger.warning(
            "Ignoring %d directories without a complete checkpoint: %s",
            len(new),
            ", ".join(str(path) for path in new),
        )
    return sorted(filter(is_complete, found), key=_order_of)


def number_of(path: pathlib.Path) -> int:
    """Returns the number in a checkpoint's name; 0 if there is none."""
    match = _NUMBERED.fullmatch(path.name)
    return int(match["number"]) if match else 0


def remove(path: pathlib.Path) -> None:
    """Removes a checkpoint, the manifest first."""
    try:
        with _locked(path):
            (path / _MANIFEST).unlink()
            _remove_arrays(path, _arrays_in(path))
    except OSError as error:
        _logger.warning("The old checkpoint '%s' cannot be removed: %s", path, error)


def remove_partial(directory: pathlib.Path, name: str) -> None:
    """Removes incomplete checkpoints that nobody is writing."""
    for path in filter(_is_abandoned, _find_numbered(directory, name)):
        with contextlib.suppress(OSError), _locked(path, wait=False):
            if _is_partial(path):
                _remove_arrays(path, _arrays_in(path))


def _write_manifest(
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
    _sync_folder(path)
    _sync_folder(path.parent)


@contextlib.contextmanager
def _locked(folder: pathlib.Path, wait: bool = True) -> Iterator[None]:
    """Lets nobody else write there, such as the job before a restart.

    Args:
        folder: A checkpoint.
        wait: Whether to wait for others; otherwise raises BlockingIOError.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError as error:
            _logger.debug("'%s' cannot be locked: %s", folder, error)
        yield
    finally:
        # Closing is not enough if a child process has inherited the descriptor.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _sync_folder(folder: pathlib.Path) -> None:
    """Writes the names in a folder to disk, so that a power failure loses none."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Not all file systems can.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_manifest(path: pathlib.Path) -> Any:
    try:
        line, end, body = (path / _MANIFEST).read_bytes().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"There is no whole checkpoint at '{path}'. Received: a path that "
            f"{'is no directory' if not path.is_dir() else 'was not completed'}. "
            "`mirrax.train.latest_checkpoint(directory)` finds the newest whole one."
        ) from None
    except OSError as error:
        raise _damaged_error(path, str(error)) from error
    if line + end != _checksum_line(body):
        raise _damaged_error(path, f"other bits than were written in {_MANIFEST}")
    try:
        manifest = json.loads(body)
        version = manifest["version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged_error(path, f"no manifest: {error!r}") from error
    if version != _VERSION:
        raise CheckpointDamagedError(
            f"'{path}' was written by another version of Mirrax. Received: "
            f"version {version!r}; this one reads {_VERSION}."
        )
    return manifest


def _arrays_file(path: pathlib.Path, order: int) -> pathlib.Path:
    return path / f"{_ARRAYS}{order}"


def _checksum_line(body: bytes) -> bytes:
    return b"%08x\n" % google_crc32c.value(body)


def _order_of(path: pathlib.Path) -> int:
    """Returns a sort key: higher for checkpoints saved later."""
    try:
        return int(_read_manifest(path)["order"])
    except (OSError, KeyError, ValueError, TypeError):
        # Nearly the same, unless the file was copied.
        with contextlib.suppress(OSError):
            return (path / _MANIFEST).stat().st_mtime_ns
        return 0


def _find_numbered(directory: pathlib.Path, name: str | None) -> list[pathlib.Path]:
    if not directory.is_dir():
        return []
    matches = [(path, _NUMBERED.fullmatch(path.name)) for path in directory.iterdir()]
    return [path for path, match in matches if match and name in (None, match["name"])]


def _is_partial(path: pathlib.Path) -> bool:
    """Returns whether `path` has an incomplete checkpoint of Mirrax."""
    return path.is_dir() and not is_complete(path) and not _find_other_files(path)


def _is_abandoned(path: pathlib.Path) -> bool:
    """Returns whether a save to `path` has ended without completing it."""
    if is_complete(path):
        return False
    try:
        with _locked(path, wait=False):
            return _is_partial(path)
    except OSError:
        # It is being written or removed, or no directory.
        return False


def _find_other_files(path: pathlib.Path) -> list[str]:
    names = (child.name for child in path.iterdir())
    return sorted(n for n in names if n != _NEW_MANIFEST and not n.startswith(_ARRAYS))


def _arrays_in(path: pathlib.Path) -> list[pathlib.Path]:
    return list(path.glob(f"{_ARRAYS}*"))


def _check_replaceable(path: pathlib.Path) -> None:
    if not os.path.lexists(path) or is_complete(path) or _is_partial(path):
        return
    what = f"a folder with {_find_other_files(path)[:3]}" if path.is_dir() else "a file"
    raise CheckpointWriteError(
        "A checkpoint can replace nothing but another checkpoint. Received: "
        f"'{path}', where there is {what}. Nothing was changed. Choose another path."
    )


def _remove_arrays(path: pathlib.Path, arrays: Iterable[pathlib.Path]) -> None:
    """Removes arrays from a directory, and the directory if it is then empty."""
    for file in (*arrays, path / _NEW_MANIFEST):
        with contextlib.suppress(OSError):
            file.unlink()
    with contextlib.suppress(OSError):
        path.rmdir()


def _write_error(path: pathlib.Path, error: Exception) -> CheckpointWriteError:
    older = " The older checkpoint there is still whole." if is_complete(path) else ""
    return CheckpointWriteError(
        "A checkpoint needs a place with room for it where this process may write. "
        f"Received: '{path}', where it failed with {type(error).__name__}: {error}."
        f"{older} Make room, or choose another place."
    )


def _damaged_error(path: pathlib.Path, reason: str) -> CheckpointDamagedError:
    return CheckpointDamagedError(
        f"The checkpoint at '{path}' cannot be read, although it was completed. "
        f"Received: {reason}. Restore an older one."
    )
