"""Writes checkpoints in the background."""

from __future__ import annotations

import pathlib
import threading

from mirrax.errors import CheckpointWriteError
from mirrax.train.checkpoints import (
    checkpoint_directory,
    checkpoint_files,
    unfinished_saves,
)
from mirrax.train.checkpoints.checkpoint_files import CheckpointData


class Writer:
    """Writes checkpoints in a thread, one at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def start(self, path: pathlib.Path, saved: CheckpointData) -> None:
        """Starts writing a checkpoint; raises at once if the path is not usable."""
        self.wait()
        try:
            checkpoint_files.check_replaceable(path)
            order = checkpoint_directory.next_order(path.parent)
            path.mkdir(parents=True, exist_ok=True)
        except CheckpointWriteError:
            raise
        except OSError as error:
            raise checkpoint_files.write_error(path, error) from error
        unfinished_saves.add(self.wait)
        work = path, saved, order
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

    def _write(self, path: pathlib.Path, saved: CheckpointData, order: int) -> None:
        try:
            checkpoint_files.write(path, saved, order)
        except Exception as error:
            self._error = error
