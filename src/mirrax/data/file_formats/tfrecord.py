"""TFRecord files: length, checksum of the length, data, checksum of the data."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from typing import Any, Self

import google_crc32c
import numpy as np
from typing_extensions import override

from mirrax.data.file_formats.compression import check_compression, make_compressor
from mirrax.data.file_formats.reader import Block, Reader, Records
from mirrax.errors import DataLossError

# uint64 length | uint32 masked crc of it | data | uint32 masked crc of the data,
# all little-endian.
HEADER_BYTES = 12
FOOTER_BYTES = 4
_MASK_DELTA = 0xA282EAD8
_GZIP_MAGIC = b"\x1f\x8b"
# Headers that were found to be right; most files have few different ones.
_MAX_KNOWN_HEADERS = 1 << 14


def masked_crc(data: bytes) -> int:
    """Returns the checksum of data as TFRecord files store it."""
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


class TFRecordReader(Reader):
    """Reads TFRecord files, and compares all data with their checksums."""

    def __init__(self, files: Sequence[str], compression: str = "") -> None:
        super().__init__(files, compression)
        self._known_headers: dict[bytes, int] = {}

    @override
    def _split(self, block: Block) -> Records:
        records, ends, error = self._cut(block)
        num_good = _count_good(block.data, records, ends)
        if num_good == len(records):
            return Records(records, ends, error)
        error = _wrong_data(block, records[num_good], ends[num_good])
        return Records(records[:num_good], ends[:num_good], error)

    def _cut(self, block: Block) -> tuple[list[bytes], list[int], DataLossError | None]:
        data = block.data
        size = len(data)
        known = self._known_headers
        records: list[bytes] = []
        ends: list[int] = []
        position = 0
        while position < size:
            header = data[position : position + HEADER_BYTES]
            length = known.get(header)
            if length is None:
                if len(header) < HEADER_BYTES:
                    break
                length = self._length_in(header)
                if length is None:
                    return records, ends, _wrong_length(block, position)
            start = position + HEADER_BYTES
            stop = start + length
            if stop + FOOTER_BYTES > size:
                break
            records.append(data[start:stop])
            position = stop + FOOTER_BYTES
            ends.append(position)
        return records, ends, _find_truncation(block, position)

    def _length_in(self, header: bytes) -> int | None:
        """Returns the length in a header, or None if its checksum is another's."""
        length, crc = struct.unpack("<QI", header)
        if crc != masked_crc(header[:8]):
            return None
        if len(self._known_headers) >= _MAX_KNOWN_HEADERS:
            self._known_headers.clear()
        self._known_headers[header] = length
        return int(length)


def _count_good(data: bytes, records: Sequence[bytes], ends: Sequence[int]) -> int:
    """Returns how many records match their checksums, up to the first that does not."""
    crcs = np.fromiter(map(google_crc32c.value, records), np.uint32, len(records))
    found = ((crcs >> 15) | (crcs << 17)) + np.uint32(_MASK_DELTA)
    stored = _uint32_before(data, np.asarray(ends, np.int64))
    wrong = np.flatnonzero(found != stored)
    return int(wrong[0]) if len(wrong) else len(records)


def _uint32_before(data: bytes, ends: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    as_bytes = np.frombuffer(data, np.uint8)
    rows = as_bytes[ends[:, None] + np.arange(-4, 0)]
    return rows.view("<u4").ravel()


def _find_truncation(block: Block, position: int) -> DataLossError | None:
    """Returns an error if the record at a position goes on beyond the file."""
    found = len(block.data) - position
    if not block.is_last or not found:
        return None
    rule = "A TFRecord file must end where a record ends"
    return _damaged(
        rule, "truncated", block, position, f"the file ends after {found} bytes"
    )


def _wrong_length(block: Block, position: int) -> DataLossError:
    length, crc = struct.unpack_from("<QI", block.data, position)
    rule = "The length of a record must match its checksum"
    what = f"length {length} with the checksum {crc:#010x}"
    return _damaged(rule, "corrupted", block, position, what)


def _wrong_data(block: Block, record: bytes, end: int) -> DataLossError:
    (crc,) = struct.unpack_from("<I", block.data, end - FOOTER_BYTES)
    start = end - FOOTER_BYTES - len(record) - HEADER_BYTES
    rule = "The data of a record must match their checksum"
    found = f"{len(record)} bytes with the checksum {masked_crc(record):#010x}"
    return _damaged(rule, "corrupted", block, start, f"{found}, not {crc:#010x}")


def _damaged(
    rule: str, state: str, block: Block, position: int, what: str
) -> DataLossError:
    fix = "Copy or write the file again, or name its format and compression."
    if block.offset == 0 and block.data.startswith(_GZIP_MAGIC):
        fix = 'It looks compressed: use compression="GZIP".'
    return DataLossError(
        f"{rule}. Received: {state} record at {block.offset + position} of "
        f"{block.path!r}: {what}. {fix}"
    )


class TFRecordWriter:
    """Writes records to a TFRecord file, replacing the file if it exists.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.tfrecord")
    >>> with TFRecordWriter(path) as writer:
    ...     writer.write(b"one")

    Args:
        path: The file.
        compression: How to compress it: "" (not at all), "GZIP" or "ZLIB".
    """

    def __init__(self, path: str, compression: str = "") -> None:
        check_compression(compression)
        self._path = os.fspath(path)
        self._file = open(self._path, "wb")  # noqa: SIM115
        self._compressor = make_compressor(compression) if compression else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, record: bytes) -> None:
        """Appends one record."""
        if not isinstance(record, bytes | bytearray | memoryview):
            raise TypeError(
                "A record must be bytes. "
                f"Received: {record!r} of type {type(record).__name__}. "
                "Encode text with `.encode()`, arrays with `.tobytes()`."
            )
        data = bytes(record)
        length = struct.pack("<Q", len(data))
        header = length + struct.pack("<I", masked_crc(length))
        self._write(header + data + struct.pack("<I", masked_crc(data)))

    def flush(self) -> None:
        """Hands all records so far to the operating system."""
        if self._compressor is not None:
            self._file.write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
        self._file.flush()

    def sync(self) -> None:
        """Waits until all records so far are on the disk."""
        self.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Completes the file. More calls do nothing."""
        if self._file.closed:
            return
        with self._file:
            if self._compressor is not None:
                self._file.write(self._compressor.flush())

    def _write(self, data: bytes) -> None:
        if self._compressor is not None:
            data = self._compressor.compress(data)
        self._file.write(data)
