"""The bytes of a file, plain or compressed, from any position on."""

from __future__ import annotations

import abc
import io
import os
import weakref
import zlib
from collections.abc import Iterator

from typing_extensions import override

from mirrax.errors import DataLossError

# What zlib calls the two containers of a deflated stream.
_WINDOW_BITS = {"GZIP": 31, "ZLIB": 15}
# Inflates to a thousand times as many bytes at most.
_INPUT_BYTES = 1 << 14
_SKIPPED_BYTES = 1 << 20


class ByteSource(abc.ABC):
    """The bytes of one file, in order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        # Closes the file when iteration stops early.
        weakref.finalize(self, self._file.close)

    def close(self) -> None:
        self._file.close()

    @abc.abstractmethod
    def read(self, size: int) -> bytes:
        """Returns at most `size` of the next bytes, and none only at the end."""


def open_source(path: str, compression: str, offset: int = 0) -> ByteSource:
    """Returns the bytes of a file, those after compression, from `offset` on."""
    if compression:
        return _CompressedSource(path, compression, offset)
    return _PlainSource(path, offset)


def check_compression(compression: str) -> str:
    """Returns the name of a compression, if it is one."""
    if compression and compression not in _WINDOW_BITS:
        raise ValueError(
            'The compression must be "" (none), "GZIP" or "ZLIB". '
            f"Received: compression={compression!r}. Use one of these."
        )
    return compression


def make_compressor(compression: str) -> zlib._Compress:
    """Returns what compresses a stream, `compression` being "GZIP" or "ZLIB"."""
    return zlib.compressobj(wbits=_WINDOW_BITS[compression])


class _PlainSource(ByteSource):
    def __init__(self, path: str, offset: int) -> None:
        super().__init__(path)
        if offset:
            size = self._file.seek(0, os.SEEK_END)
            if offset > size:
                self.close()
                raise _ends_before(path, offset, size)
            self._file.seek(offset)

    @override
    def read(self, size: int) -> bytes:
        return self._file.read(size)


class _CompressedSource(ByteSource):
    def __init__(self, path: str, compression: str, offset: int) -> None:
        super().__init__(path)
        self._pieces = _inflated(self._file, path, compression)
        self._error: DataLossError | None = None
        self._rest, position = b"", 0
        # A compressed stream can be read only from its start.
        while position < offset:
            skipped = self.read(min(offset - position, _SKIPPED_BYTES))
            if not skipped:
                self.close()
                raise _ends_before(path, offset, position)
            position += len(skipped)

    @override
    def read(self, size: int) -> bytes:
        pieces, found = [self._rest], len(self._rest)
        try:
            while found < size and (piece := next(self._pieces, b"")):
                pieces.append(piece)
                found += len(piece)
        except DataLossError as error:
            # Raised after the bytes before it.
            self._error = error
        if not found and self._error is not None:
            raise self._error
        data = b"".join(pieces)
        self._rest = data[size:]
        return data[:size]


def _inflated(file: io.FileIO, path: str, compression: str) -> Iterator[bytes]:
    """Yields the bytes of one stream after another, as `cat a.gz b.gz` writes them."""
    inflater, data = None, b""
    try:
        while data or (data := file.read(_INPUT_BYTES)):
            inflater = inflater or zlib.decompressobj(wbits=_WINDOW_BITS[compression])
            if piece := inflater.decompress(data):
                yield piece
            data = inflater.unused_data
            inflater = None if inflater.eof else inflater
        if inflater is not None:
            raise zlib.error("the file ends too early")
    except zlib.error as error:
        raise DataLossError(
            f"The file must contain valid {compression} data. Received: "
            f"{path!r}, where {error}, before byte {file.tell()}. Write the file "
            "again, or name its compression."
        ) from None


def _ends_before(path: str, offset: int, size: int) -> DataLossError:
    return DataLossError(
        "The file must not end before the saved position. Received: "
        f"byte {offset} of {path!r}, which has {size} bytes. "
        "Restore with the files that the state was saved with."
    )
