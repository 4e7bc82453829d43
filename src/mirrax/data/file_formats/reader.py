"""The base class of readers: reads files block by block, with positions."""

from __future__ import annotations

import abc
import dataclasses
import errno
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from mirrax.data.file_formats.compression import (
    ByteSource,
    check_compression,
    open_source,
)
from mirrax.data.plan.node import as_count
from mirrax.errors import DataLossError, NotFoundError

# Larger blocks are no faster: they do not fit into the CPU cache.
BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Block:
    """Bytes of a file, from the start of a record on.

    Args:
        offset: The position of the first byte in the file.
        data: The bytes; records may go on after them unless the block is the last.
        is_last: Whether the file ends with these bytes.
        file_size: The size of the file; None where only reading can tell.
    """

    path: str
    offset: int
    data: bytes
    is_last: bool
    file_size: int | None


@dataclasses.dataclass(frozen=True)
class Records:
    """The records of a block.

    Args:
        ends: For each record, the position in the block of what comes after it.
        error: What is wrong after the last of them, if anything.
    """

    values: Sequence[bytes] = ()
    ends: Sequence[int] | np.ndarray[Any, Any] = ()
    error: DataLossError | None = None


class Reader(abc.ABC):
    """Reads the records of one file after another, in chunks.

    Args:
        files: Paths of files, all of which must exist.
        compression: How they are compressed: "" (not at all), "GZIP" or "ZLIB".
    """

    _next: int

    def __init__(self, files: Sequence[str], compression: str = "") -> None:
        self._files = check_files(files)
        self._compression = check_compression(compression)
        self._source: ByteSource | None = None
        self.restore([0, 0])

    @abc.abstractmethod
    def _split(self, block: Block) -> Records:
        """Returns the complete records at the start of a block."""

    def read(self, limit: int) -> list[bytes]:
        """Returns up to `limit` records, and none only after the last file.

        Raises:
            DataLossError: The next record is damaged. Those before it came before.
        """
        found: list[bytes] = []
        while len(found) < limit:
            try:
                if not self._has_records():
                    break
            except DataLossError:
                if not found:
                    raise
                break
            stop = self._next + limit - len(found)
            found += self._records.values[self._next : stop]
            self._next = min(stop, len(self._records.values))
        return found

    def state(self) -> list[int]:
        """Returns the position of the next record: a file's index and a byte in it.

        In a compressed file, bytes are counted as they are without compression.
        """
        return [self._file_index, self._offset_of(self._next)]

    def restore(self, state: Sequence[int]) -> None:
        """Goes to a position that `state` returned, of a reader of the same files."""
        file_index, offset = state
        self._file_index = as_count(file_index, len(self._files))
        if self._source is not None:
            self._source.close()
        self._source = None
        # The offset of the current block; its records before `_next` were returned.
        self._offset = as_count(offset)
        self._records = Records()
        self._next = 0
        # What follows those records: read already, but not a complete record.
        self._rest = b""
        self._is_last = False

    def _offset_of(self, index: int) -> int:
        return self._offset + (int(self._records.ends[index - 1]) if index else 0)

    def _has_records(self) -> bool:
        """Returns whether there is another record; may read the next block."""
        while self._next == len(self._records.values):
            if self._records.error is not None:
                raise self._records.error
            if self._file_index == len(self._files):
                return False
            if self._is_last:
                self.restore([self._file_index + 1, 0])
            else:
                self._read_block()
        return True

    def _read_block(self) -> None:
        path = self._files[self._file_index]
        if self._source is None:
            self._source = open_source(path, self._compression, self._offset)
        limit = self._source.max_record_bytes
        if limit is not None and len(self._rest) > limit:
            raise _too_long(path, self._offset_of(self._next), limit)
        # Doubling reads a record of any size in linear time.
        data = self._source.read(max(BLOCK_BYTES, len(self._rest)))
        block = Block(
            path=path,
            offset=self._offset_of(self._next),
            data=self._rest + data,
            is_last=not data,
            file_size=self._source.size,
        )
        records = self._split(block)
        used = int(records.ends[-1]) if len(records.ends) else 0
        self._offset = block.offset
        self._rest = block.data[used:]
        self._is_last = block.is_last
        self._records = records
        self._next = 0


def _too_long(path: str, offset: int, limit: int) -> DataLossError:
    return DataLossError(
        f"A record of this compressed file can have up to {limit} bytes. Received: a "
        f"longer one at {offset} of {path!r}, counted without compression. Write "
        "shorter records, or do not compress the file."
    )


def check_files(files: Sequence[str]) -> tuple[str, ...]:
    """Returns the paths, if each exists."""
    paths = tuple(os.fspath(path) for path in files)
    for path in paths:
        if not os.path.exists(path):
            raise NotFoundError(
                errno.ENOENT,
                "Every file must exist when its reader is made. "
                f"Correct the path or the working directory ({os.getcwd()}). Received",
                path,
            )
    return paths
