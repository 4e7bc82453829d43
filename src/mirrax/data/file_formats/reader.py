"""Readers of records, block by block: the base class, text, fixed lengths."""

from __future__ import annotations

import abc
import dataclasses
import errno
import os
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.file_formats.compression import (
    BLOCK_BYTES,
    ByteSource,
    check_compression,
)
from mirrax.data.plan.columns import Columns, as_objects
from mirrax.data.plan.streams import State, Stream, as_count
from mirrax.errors import DataLossError, NotFoundError


@dataclasses.dataclass(frozen=True)
class Block:
    """Bytes of a file, from the start of a record on.

    Args:
        offset: The position of the first byte in the file.
        data: The bytes; records may go on after them unless the block is the last.
    """

    path: str
    offset: int
    data: bytes
    is_last: bool


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


class Reader(Stream):
    """The records of one file after another.

    The position is a file's index and a byte in it. In a compressed file, bytes are
    counted as they are without compression.

    Args:
        files: Paths of files, all of which must exist.
    """

    structure = jax.tree.structure(0)
    chunk = 256

    _next: int

    def __init__(self, files: Sequence[str], compression: str = "") -> None:
        self._files = check_files(files)
        self._compression = check_compression(compression)
        self._source: ByteSource | None = None
        self.restore([0, 0])

    @abc.abstractmethod
    def _split(self, block: Block) -> Records:
        """Returns the complete records at the start of a block."""

    @override
    def take(self, limit: int) -> Columns | None:
        records = self.read(limit)
        return [as_objects(records)] if records else None

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

    @override
    def state(self) -> State:
        return [self._file_index, self._offset_of(self._next)]

    @override
    def restore(self, state: State) -> None:
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
            self._source = ByteSource(path, self._compression, self._offset)
        # Doubling reads a record of any size in linear time.
        data = self._source.read(max(BLOCK_BYTES, len(self._rest)))
        block = Block(
            path=path,
            offset=self._offset_of(self._next),
            data=self._rest + data,
            is_last=not data,
        )
        records = self._split(block)
        used = int(records.ends[-1]) if len(records.ends) else 0
        self._offset = block.offset
        self._rest = block.data[used:]
        self._is_last = block.is_last
        self._records = records
        self._next = 0


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


class TextLineReader(Reader):
    r"""Reads the lines of text files, without their endings (\n or \r\n).

    Only these end a line: `bytes.splitlines` also cuts at a lone \r.
    """

    @override
    def _split(self, block: Block) -> Records:
        size = len(block.data) if block.is_last else block.data.rfind(b"\n") + 1
        if not size:
            return Records()
        text = block.data[:size]
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        lines = text.split(b"\n")
        if lines[-1]:
            ends = np.append(ends, size)
        else:
            lines.pop()
        return Records(lines, ends)


class FixedLengthReader(Reader):
    """Reads files of records of one size."""

    def __init__(
        self,
        files: Sequence[str],
        record_bytes: int,
        header_bytes: int = 0,
        footer_bytes: int = 0,
        compression: str = "",
    ) -> None:
        super().__init__(files, compression)
        if record_bytes < 1 or header_bytes < 0 or footer_bytes < 0:
            raise ValueError(
                "A record must have at least one byte, header and footer none or more. "
                f"Received: record_bytes={record_bytes}, header_bytes={header_bytes}, "
                f"footer_bytes={footer_bytes}. Use the sizes that the files have."
            )
        self._record_bytes = record_bytes
        self._header_bytes = header_bytes
        self._footer_bytes = footer_bytes
        for path in self._files:
            # Only the end of a compressed file tells its size.
            if not compression and os.path.isfile(path):
                error = self._find_misfit(path, os.path.getsize(path))
                if error is not None:
                    raise error

    @override
    def _split(self, block: Block) -> Records:
        size = block.offset + len(block.data)
        error = self._find_misfit(block.path, size) if block.is_last else None
        start = self._header_bytes if block.offset == 0 else 0
        step = self._record_bytes
        num_records = max(len(block.data) - start - self._footer_bytes, 0) // step
        stop = start + num_records * step
        values = [block.data[i : i + step] for i in range(start, stop, step)]
        return Records(values, range(start + step, stop + 1, step), error)

    def _find_misfit(self, path: str, size: int) -> DataLossError | None:
        body = size - self._header_bytes - self._footer_bytes
        if body >= 0 and body % self._record_bytes == 0:
            return None
        return DataLossError(
            "A file must consist of its header, whole records and its footer. "
            f"Received: {path!r} with {size} bytes, of which header_bytes="
            f"{self._header_bytes} and footer_bytes={self._footer_bytes} leave {body} "
            f"for records of record_bytes={self._record_bytes}. Correct the sizes, or "
            "write the file again."
        )
