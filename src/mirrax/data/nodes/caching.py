"""`cache`."""

from __future__ import annotations

import copy
import dataclasses
import errno
import os
import pathlib
import pickle
import tempfile
from typing import Any

import jax
from typing_extensions import override

from mirrax.data import columns as cols
from mirrax.data.columns import Columns
from mirrax.data.node import Epoch, ReplayedStream, SourceNode, Stream
from mirrax.errors import DataLossError, NotFoundError

# The cache is filled once, so its order is always that of one iteration.
_EPOCH = (0,)


class CachedColumns:
    """The cached elements."""

    def __init__(self) -> None:
        self.columns: Columns | None = None
        self.structure: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class Cache(SourceNode):
    """Elements that are read once and then cached, in memory or in a file."""

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
            if self._node.file:
                _save(self._node.file, self._memory)
        return columns


def _require_folder(file: str) -> None:
    folder = pathlib.Path(file).absolute().parent
    if not folder.is_dir():
        raise NotFoundError(
            errno.ENOENT,
            f"The folder of a cache must exist before it is filled. Create {folder}. "
            "Received",
            file,
        )


def _save(file: str, memory: CachedColumns) -> None:
    """Writes a cache file atomically."""
    count = 0 if memory.columns is None else len(memory.columns)
    nesting = None if count == 0 else jax.tree.unflatten(memory.structure, range(count))
    folder = pathlib.Path(file).absolute().parent
    handle, name = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "wb") as stream:
        pickle.dump((memory.columns, nesting), stream)
    os.replace(name, file)


def _load(file: str, memory: CachedColumns) -> None:
    try:
        with open(file, "rb") as stream:
            memory.columns, nesting = pickle.load(stream)
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError) as error:
        raise DataLossError(
            "The file of a cache must be one that `cache` wrote. Received: "
            f"{file!r}: {error}. Delete it, and it is written again."
        ) from error
    memory.structure = jax.tree.structure(nesting)
