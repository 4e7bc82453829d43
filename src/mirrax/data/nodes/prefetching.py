"""`prefetch`, and the thread that prepares the next steps while one runs."""

from __future__ import annotations

import collections
import dataclasses
import threading
import weakref
from typing import Any, Protocol

from typing_extensions import override

from mirrax.data.nodes.buffered import BufferedStream
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import (
    Epoch,
    SourceNode,
    State,
    Stream,
    has_expensive_node,
)
from mirrax.data.thread_pool import AUTOTUNE, POLL_SECONDS

_DEFAULT_SIZE = 2
_JOIN_SECONDS = 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class Prefetch(SourceNode):
    """Elements that a thread reads in advance, if the source is expensive."""

    buffer_size: int

    @property
    def depth(self) -> int:
        """How many chunks are read in advance."""
        return _DEFAULT_SIZE if self.buffer_size == AUTOTUNE else self.buffer_size

    @override
    def open(self, epoch: Epoch) -> Stream:
        stream = self.source.open(epoch)
        if not self.depth or not has_expensive_node(self.source):
            return stream
        return _PrefetchStream(stream, self.depth)


class _PrefetchStream(BufferedStream):
    """Prefetches chunks of the size of the first `take`."""

    def __init__(self, source: Stream, depth: int) -> None:
        super().__init__(_PrefetchedChunks(source, depth))
        self.chunk = source.chunk


class _PrefetchedChunks(Stream):
    def __init__(self, source: Stream, depth: int) -> None:
        self._chunks = _Chunks(source)
        self._prefetcher = Prefetcher(self._chunks, depth)

    @override
    def take(self, limit: int) -> Columns | None:
        self._chunks.size = self._chunks.size or limit
        columns, self.structure = self._prefetcher.step() or (None, self.structure)
        return columns

    @override
    def state(self) -> State:
        return self._prefetcher.position()

    @override
    def restore(self, state: State) -> None:
        self._prefetcher.seek(state)


class _Chunks:
    """The steps of the prefetcher: columns and their structure."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.size = 0

    def step(self) -> tuple[Columns, Any] | None:
        columns = self._stream.take(self.size)
        return None if columns is None else (columns, self._stream.structure)

    def position(self) -> State:
        return self._stream.state()

    def seek(self, position: State) -> None:
        self._stream.restore(position)


class Steps(Protocol):
    """Produces steps, with a position."""

    def step(self) -> Any:
        """Returns the next step; None at the end."""

    def position(self) -> Any:
        """Returns the position of the next step."""

    def seek(self, position: Any) -> None:
        """Restores a position."""


class Prefetcher:
    """Steps that a thread prepares, `depth` of them in advance.

    The position is that after the last returned step. The thread ends with the data,
    with an error, or with this object.
    """

    def __init__(self, steps: Steps, depth: int) -> None:
        self._steps = steps
        self._depth = depth
        self._reader: _Reader | None = None
        self._position = steps.position()

    def step(self) -> Any:
        if self._reader is None:
            self._reader = _Reader(self._steps, self._depth)
            weakref.finalize(self, self._reader.stop)
        step, self._position, error = self._reader.get()
        if error is not None:
            raise error
        return step

    def position(self) -> Any:
        return self._position

    def seek(self, position: Any) -> None:
        if self._reader is not None:
            self._reader.stop()
            if self._reader.is_alive():
                raise RuntimeError(
                    "A dataset can go to another position once it has stopped reading. "
                    "Received: a dataset that is still waiting for its next element. "
                    "Restore the position in a new iterator."
                )
            self._reader = None
        self._steps.seek(position)
        self._position = position


class _Reader:
    """The reading thread and its queue."""

    def __init__(self, steps: Steps, depth: int) -> None:
        self._source = steps
        self._depth = depth
        self._ready: collections.deque[Any] = collections.deque()
        self._changed = threading.Condition()
        self._last: Any = None
        self._is_stopped = False
        self._thread = threading.Thread(
            target=self._read, name="mirrax-prefetch", daemon=True
        )
        self._thread.start()

    def get(self) -> Any:
        """Returns the next step, the position after it, and the error, if any."""
        with self._changed:
            while not self._ready and self._last is None:
                # A timeout, so that Ctrl-C is handled.
                self._changed.wait(POLL_SECONDS)
            step = self._ready.popleft() if self._ready else self._last
            self._changed.notify_all()
            return step

    def stop(self) -> None:
        """Ends the thread, after the step that it is reading."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)

    def is_alive(self) -> bool:
        """Returns whether the thread is still reading."""
        return self._thread.is_alive()

    def _read(self) -> None:
        while not self._is_stopped:
            try:
                step = self._source.step()
                entry = (step, self._source.position(), None)
            except BaseException as error:
                self._put((None, self._source.position(), error), is_last=True)
                return
            self._put(entry, is_last=step is None)
            if step is None:
                return

    def _put(self, entry: Any, is_last: bool) -> None:
        with self._changed:
            while len(self._ready) >= self._depth and not self._is_stopped:
                self._changed.wait()
            self._ready.append(entry)
            if is_last:
                self._last = entry
            self._changed.notify_all()
