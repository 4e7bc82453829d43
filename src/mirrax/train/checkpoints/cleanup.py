"""Removes checkpoints that are old or incomplete: files of ours, and no others."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
from collections.abc import Iterable

from mirrax.errors import CheckpointWriteError
from mirrax.train.checkpoints import array_file, manifest
from mirrax.train.checkpoints.folder_lock import LOCK_SECONDS, locked

_logger = logging.getLogger(__name__)


def remove(path: pathlib.Path) -> None:
    """Removes a checkpoint, the manifest first, unless its version is unknown.

    Of a link only the link: others may use what it leads to.
    """
    try:
        if path.is_symlink():
            path.unlink()
            return
        with locked(path, LOCK_SECONDS):
            if manifest.has_other_version(path):
                return
            (path / manifest.NAME).unlink()
            remove_files(path, array_file.find(path))
    except FileNotFoundError:
        # Another job has removed it.
        return
    except OSError as error:
        _logger.warning("The old checkpoint '%s' cannot be removed: %s", path, error)


def remove_partial(path: pathlib.Path) -> None:
    """Removes an incomplete checkpoint, unless somebody may be writing it."""
    with contextlib.suppress(OSError), locked(path, seconds=0) as is_locked:
        if is_locked and _is_partial(path):
            _logger.warning("Removing the incomplete checkpoint '%s'", path)
            remove_files(path, array_file.find(path))


def check_replaceable(path: pathlib.Path) -> None:
    """Raises if there is anything else than a checkpoint, complete or not."""
    if manifest.is_complete(path):
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


def remove_files(path: pathlib.Path, arrays: Iterable[pathlib.Path]) -> None:
    """Removes arrays from a directory, and the directory if it is then empty."""
    for file in (*arrays, path / manifest.NEW):
        with contextlib.suppress(OSError):
            file.unlink()
    with contextlib.suppress(OSError):
        path.rmdir()


def _is_partial(path: pathlib.Path) -> bool:
    """Returns whether `path` has files of an incomplete checkpoint, and no others."""
    names = os.listdir(path)
    return bool(names) and not manifest.is_complete(path) and not _find_others(names)


def _find_others(names: Iterable[str]) -> list[str]:
    own = {manifest.NAME, manifest.NEW}
    return sorted(n for n in names if n not in own and not array_file.NAME.fullmatch(n))
