"""`prefetch`: a thread that reads the next elements in advance."""

from __future__ import annotations

import dataclasses
import functools

from typing_extensions import override

from mirrax.data.nodes.buffered import BufferedStream, Chunk, read_chunk
from mirrax.data.plan.node import Epoch, SourceNode, Stream, has_expensive_node
from mirrax.data.thread_pool import AUTOTUNE, Prefetcher

_DEFAULT_SIZE = 2


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
        super().__init__(source, source.chunk)
        self._depth = depth
        self._prefetcher: Prefetcher | None = None

    @override
    def _read(self, size: int) -> Chunk:
        if self._prefetcher is None:
            read = functools.partial(read_chunk, self._source, size)
            self._prefetcher = Prefetcher(read, self._depth)
        chunk: Chunk = self._prefetcher.next()
        return chunk
