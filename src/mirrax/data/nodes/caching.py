"""`cache` and `load`: elements that are kept in memory or in a file."""

from __future__ import annotations

import copy
import dataclasses
import errno
import os
import pathlib
from typing import Any

import jax
from typing_extensions import override

from mirrax.data.file_formats.element_files import ElementFile, write_elements
from mirrax.data.nodes.buffered import BufferedStream
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import STRING, Columns
from mirrax.data.plan.node import UNKNOWN, Epoch, Node, SourceNode
from mirrax.data.plan.streams import ReplayedStream, Stream
from mirrax.errors import NotFoundError
from mirrax.values.tensor_spec import TensorSpec

# The cache is filled once, so its order is always that of one iteration.
_EPOCH = (0,)
# In the file of a cache, whose node knows the specs.
_ANY = TensorSpec(None, STRING)


class CachedColumns:
    """The cached elements."""

    def __init__(self) -> None:
        self.columns: Columns | None = None
        self.structure: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class Cache(SourceNode):
    """Elements that are read once and then cached, in memory or in a file."""

    keeps_batch_size = True

    file: str = ""
    memory: CachedColumns = dataclasses.field(default_factory=CachedColumns, repr=False)

    @override
    def open(self, epoch: Epoch) -> Stream:
        if self.file and self.memory.structure is None:
            _require_folder(self.file)
            if os.path.exists(self.file):
                _load(self.file, self.memory)
        return _CacheStream(self)


class _CacheStream(ReplayedStream):
    """Reads from the source once, and from the cache later."""

    def __init__(self, node: Cache) -> None:
        self._node = node
        self._memory = node.memory
        is_full = node.memory.structure is not None
        self._source = None if is_full else node.source.open(_EPOCH)
        self._read: list[Columns] = []
        self.structure = node.memory.structure

    @override
    def _take(self, limit: int) -> Columns | None:
        if self._source is None:
            if self._memory.columns is None:
                return None
            span = slice(self._taken, self._taken + limit)
            # A copy, because the user may modify elements.
            found = copy.deepcopy(cols.select(self._memory.columns, span))
            return found if cols.num_rows(found) else None
        columns = self._source.take(limit)
        self.structure = self._source.structure
        if columns is not None:
            self._read.append(copy.deepcopy(columns))
        elif self._memory.structure is None:
            self._memory.columns = cols.concatenate(self._read) if self._read else None
            self._memory.structure = self.structure
            if self._node.file and self.structure is not None:
                specs = [_ANY] * self.structure.num_leaves
                spec = jax.tree.unflatten(self.structure, specs)
                write_elements(self._node.file, spec, self._read)
        return columns


@dataclasses.dataclass(frozen=True, eq=False)
class SavedElements(Node):
    """The elements in a file that `save` wrote."""

    is_expensive = True

    path: str
    file: ElementFile = dataclasses.field(repr=False)
    spec: Any = dataclasses.field(default=None, repr=False)
    cardinality: int = dataclasses.field(default=UNKNOWN, repr=False)

    @override
    def open(self, epoch: Epoch) -> Stream:
        return BufferedStream(_SavedChunks(self.file), chunk=256)


class _SavedChunks(ReplayedStream):
    """Gives all elements of a record at once."""

    def __init__(self, file: ElementFile) -> None:
        self._chunks = file.chunks()
        self.structure = file.structure

    @override
    def _take(self, limit: int) -> Columns | None:
        return next(self._chunks, None)


def _require_folder(file: str) -> None:
    folder = pathlib.Path(file).absolute().parent
    if not folder.is_dir():
        raise NotFoundError(
            errno.ENOENT,
            f"The folder of a cache must exist before it is filled. Create {folder}. "
            "Received",
            file,
        )


def _load(file: str, memory: CachedColumns) -> None:
    found = ElementFile(file)
    chunks = list(found.chunks())
    memory.columns = cols.concatenate(chunks) if chunks else None
    memory.structure = found.structure
