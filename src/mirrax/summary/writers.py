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

from mirrax.data.file_formats.tfrecord import TFRecordWriter
from mirrax.summary import events
from mirrax.summary.recording import recording_to, set_writer

_numbers = itertools.count()


class SummaryWriter:
    """A writer that discards summaries; `create_file_writer` writes to a file.

    >>> with SummaryWriter().as_default(step=1):
    ...     mirrax.summary.scalar("loss", 0.5)
    True
    """

    @contextlib.contextmanager
    def as_default(self, step: Any = None) -> Iterator[SummaryWriter]:
        """Makes this the default writer in a `with` block."""
        with recording_to(self, step):
            yield self

    def set_as_default(self, step: Any = None) -> None:
        """Makes this the default writer from now on."""
        set_writer(self, step)

    def write(self, tag: str, content: bytes, step: int) -> None:
        """Writes one encoded summary."""

    def flush(self) -> None:
        """Flushes buffered summaries to the file."""

    def close(self) -> None:
        """Closes the file."""

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileWriter(SummaryWriter):
    """Writes to an event file; see `create_file_writer` for the arguments."""

    def __init__(
        self, logdir: Any, max_queue: int, flush_millis: int, filename_suffix: str
    ) -> None:
        folder = os.fsdecode(logdir)
        os.makedirs(folder, exist_ok=True)
        now = time.time()
        name = (
            f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}."
            f"{next(_numbers)}{filename_suffix}"
        )
        self._writer = TFRecordWriter(os.path.join(folder, name))
        # Few programs close their writers, so garbage collection does.
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
    """Returns a writer of an event file in a directory, which TensorBoard reads.

    >>> from mirrax import summary
    >>> with summary.create_file_writer("logs").as_default(step=1):
    ...     summary.scalar("loss", 0.5)
    True

    Args:
        logdir: The directory; created if needed.
        max_queue: Flush after this many summaries,
        flush_millis: or after this many milliseconds.
        filename_suffix: The suffix of the file name.
    """
    return FileWriter(
        logdir,
        10 if max_queue is None else int(max_queue),
        120_000 if flush_millis is None else int(flush_millis),
        ".v2" if filename_suffix is None else filename_suffix,
    )


def create_noop_writer() -> SummaryWriter:
    """Returns a writer that discards summaries.

    >>> with create_noop_writer().as_default(step=1):
    ...     mirrax.summary.scalar("loss", 0.5)
    True
    """
    return SummaryWriter()
