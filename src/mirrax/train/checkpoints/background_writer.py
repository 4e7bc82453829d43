"""Writes checkpoints in the background, also if the program ends meanwhile."""

from __future__ import annotations

import atexit
import os
import pathlib
import sys
import threading
from collections.abc import Callable

from mirrax.cluster.worker.streams import flush_output
from mirrax.train.checkpoints import checkpoint_format, cleanup, numbered_checkpoints
from mirrax.train.checkpoints.checkpoint_format import CheckpointData

Then = Callable[[], None]


class Writer:
    """Writes checkpoints in a thread, one at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def start(
        self, path: pathlib.Path, saved: CheckpointData, then: Then | None = None
    ) -> None:
        """Starts writing a checkpoint; raises at once if the path is not usable.

        Args:
            then: Called in the thread once the checkpoint is complete.
        """
        self.wait()
        with checkpoint_format.write_errors(path):
            cleanup.check_replaceable(path)
            path.mkdir(parents=True, exist_ok=True)

        def write() -> None:
            try:
                with checkpoint_format.write_errors(path):
                    # Reads all checkpoints of the folder.
                    order = numbered_checkpoints.next_order(path)
                    checkpoint_format.write(path, saved, order)
                if then is not None:
                    then()
            except Exception as error:
                self._error = error

        _add_unfinished(self)
        thread = threading.Thread(target=write, name="mirrax-saving")
        try:
            thread.start()
        except RuntimeError:
            # The main program has ended, and some versions of Python start no more.
            write()
        else:
            self._thread = thread

    def wait(self) -> None:
        """Waits until the checkpoint is written; raises the error of writing."""
        if self._thread is not None:
            self._thread.join()
        _unfinished.discard(self)
        self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error


_unfinished: set[Writer] = set()


def _add_unfinished(writer: Writer) -> None:
    """Waits for `writer` at exit; an error then ends the program with code 1."""
    _unfinished.add(writer)
    # What was registered last runs first: before this process leaves its job.
    atexit.unregister(_finish)
    atexit.register(_finish)


def _finish() -> None:
    has_failed = False
    for writer in list(_unfinished):
        try:
            writer.wait()
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            has_failed = True
    if has_failed:
        # Python has no other means to set the exit code so late.
        atexit.unregister(_finish)
        atexit._run_exitfuncs()
        flush_output()
        os._exit(1)
