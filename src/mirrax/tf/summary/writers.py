"""Writers of event files."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
import weakref
from collections.abc import Iterator
from typing import Any

import mirrax
from mirrax.tf.summary import events
from mirrax.tf.summary.recording import recording_to

_numbers = itertools.count()


class SummaryWriter:
    """Writes to nowhere; `create_file_writer` makes one that writes to a file."""

    @contextlib.contextmanager
    def as_default(self, step: Any = None) -> Iterator[SummaryWriter]:
        """Makes summaries go here."""
        with recording_to(self, step):
            yield self

    def set_as_default(self, step: Any = None) -> None:
        """Makes summaries go here from now on."""
        recording_to(self, step).__enter__()

    def write(self, tag: str, content: bytes, step: int) -> None:
        """Writes what there is at one step."""

    def flush(self) -> None:
        """Hands what was written to the operating system."""

    def close(self) -> None:
        """Ends writing."""

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileWriter(SummaryWriter):
    """Writes to an event file in a folder.

    Args:
        logdir: The folder, which is made if need be.
        max_queue: After so many numbers they are handed to the operating system.
        flush_millis: Or after so much time.
        filename_suffix: The end of the file's name.
    """

    def __init__(
        self,
        logdir: Any,
        max_queue: int = 10,
        flush_millis: int = 120_000,
        filename_suffix: str = ".v2",
    ) -> None:
        folder = os.fspath(logdir)
        os.makedirs(folder, exist_ok=True)
        now = time.time()
        name = (
            f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}."
            f"{next(_numbers)}{filename_suffix}"
        )
        self._writer = mirrax.data.TFRecordWriter(os.path.join(folder, name))
        # Few programs close their writers, so the end of its life does.
        weakref.finalize(self, self._writer.close)
        self._max_queue = max_queue
        self._flush_seconds = flush_millis / 1000
        self._waiting = 0
        self._writer.write(events.version_event(now))
        self.flush()

    def write(self, tag: str, content: bytes, step: int) -> None:
        now = time.time()
        self._writer.write(events.event(now, step, tag, content))
        self._waiting += 1
        if (
            self._waiting >= self._max_queue
            or now - self._flushed > self._flush_seconds
        ):
            self.flush()

    def flush(self) -> None:
        self._writer.flush()
        self._waiting = 0
        self._flushed = time.time()

    def close(self) -> None:
        self._writer.close()


def create_file_writer(
    logdir: Any,
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
    name: Any = None,
    experimental_trackable: bool = False,
    experimental_mesh: Any = None,
) -> SummaryWriter:
    return FileWriter(
        logdir,
        10 if max_queue is None else int(max_queue),
        120_000 if flush_millis is None else int(flush_millis),
        ".v2" if filename_suffix is None else filename_suffix,
    )


def create_noop_writer() -> SummaryWriter:
    return SummaryWriter()
