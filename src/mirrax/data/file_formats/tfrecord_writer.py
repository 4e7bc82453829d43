"""Writing TFRecord files."""

from __future__ import annotations

import os
import struct
import types
import zlib
from typing import Self

from mirrax.data.file_formats.compression import check_compression, make_compressor
from mirrax.data.file_formats.tfrecord import masked_crc


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()

    def write(self, record: bytes) -> None:
        """Appends one record."""
        if not isinstance(record, bytes | bytearray | memoryview):
            raise TypeError(
                "A record must be bytes. "
                f"Received: {record!r} of type {type(record).__name__}. "
                "Encode text with `.encode()`, arrays with `.tobytes()`."
            )
        self._check_open()
        data = bytes(record)
        length = struct.pack("<Q", len(data))
        header = length + struct.pack("<I", masked_crc(length))
        self._write(header + data + struct.pack("<I", masked_crc(data)))

    def flush(self) -> None:
        """Hands all records so far to the operating system."""
        self._check_open()
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

    def _check_open(self) -> None:
        if self._file.closed:
            raise ValueError(
                "A writer takes records until it is closed. Received: a record for "
                f"{self._path!r}, which is closed. Write before `close()`."
            )
