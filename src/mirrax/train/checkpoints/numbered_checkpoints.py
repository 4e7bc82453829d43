"""Directories with numbered checkpoints, `<name>-<number>`."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import tempfile
import time

from mirrax.cluster import current_job
from mirrax.train.checkpoints import checkpoint_format, cleanup, manifest

_REFERENCE = "mirrax-directory-of-the-chief"
_NUMBERED = re.compile(r"(?P<name>.*)-(?P<number>\d+)")


def latest_checkpoint(directory: str | os.PathLike[str]) -> str | None:
    """Returns the path of the complete checkpoint that was saved last, if any.

    >>> import tempfile
    >>> latest_checkpoint(tempfile.mkdtemp()) is None
    True
    """
    found = numbered(pathlib.Path(directory).absolute())
    return str(found[-1]) if found else None


def numbered(directory: pathlib.Path, name: str | None = None) -> list[pathlib.Path]:
    """Returns the complete checkpoints in a directory, in the order of saving.

    For a worker whose directory refers to the chief's: those in both.
    """
    found = [
        path
        for each in (directory, *_directory_of_chief(directory))
        for path in _find_numbered(each, name)
        if manifest.is_complete(path)
    ]
    return sorted(found, key=manifest.order_of)


def refer(directory: pathlib.Path, to: str) -> None:
    """Makes a directory of a worker that refers to the one the chief writes.

    Programs written for TensorFlow look for checkpoints there, or remove it.
    """
    reference = directory / _REFERENCE
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        if not reference.is_file() or reference.read_bytes() != os.fsencode(to):
            new = reference.with_name(f"{_REFERENCE}-new")
            new.write_bytes(os.fsencode(to))
            os.replace(new, reference)


def _directory_of_chief(own: pathlib.Path) -> list[pathlib.Path]:
    # The chief removes old checkpoints that it finds: only its own.
    job = current_job()
    if job is None or job.is_chief:
        return []
    with contextlib.suppress(OSError):
        return [pathlib.Path(os.fsdecode((own / _REFERENCE).read_bytes()))]
    return []


def number_of(path: pathlib.Path) -> int:
    """Returns the number in a checkpoint's name; 0 if there is none."""
    match = _NUMBERED.fullmatch(path.name)
    return int(match["number"]) if match else 0


def next_order(path: pathlib.Path) -> int:
    """Returns a number for the next save: higher than those of all others there."""
    # The one at the path may have no number in its name.
    others = (path, *numbered(path.parent)[-1:])
    # Also if the clock was set back.
    return max(time.time_ns(), 1 + max(map(manifest.order_of, others)))


def remove_partial(directory: pathlib.Path, name: str) -> None:
    """Removes incomplete checkpoints that nobody is writing."""
    for path in _find_numbered(directory, name):
        cleanup.remove_partial(path)


def require_writable(directory: pathlib.Path) -> None:
    """Makes the directory; raises unless a checkpoint can be written there."""
    with checkpoint_format.write_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass


def _find_numbered(directory: pathlib.Path, name: str | None) -> list[pathlib.Path]:
    if not directory.is_dir():
        return []
    matches = [(path, _NUMBERED.fullmatch(path.name)) for path in directory.iterdir()]
    return [path for path, match in matches if match and name in (None, match["name"])]
