"""The bytes of a file, plain or compressed, from any position on."""

from __future__ import annotations

import io
import os
import weakref
import zlib
from collections.abc import Iterator

from mirrax.errors import DataLossError

# What zlib calls the two containers of a deflated stream.
_WINDOW_BITS = {"GZIP": 31, "ZLIB": 15}
# Inflates to a thousand times as many bytes at most.
_INPUT_BYTES = 1 << 14
# Larger blocks are no faster: they do not fit into the CPU cache.
BLOCK_BYTES = 1 << 20


class ByteSource:
    """The bytes of one file, in order: those after compression, from `offset` on."""

    def __init__(self, path: str, compression: str, offset: int) -> None:
        file = open(path, "rb", buffering=0)  # noqa: SIM115
        # Also closes the file when iteration stops early.
        self.close = weakref.finalize(self, file.close)
        self._pieces = _pieces(file, path, compression)
        self._error: DataLossError | None = None
        self._rest, position = b"", 0
        if offset and not compression:
            position = min(offset, file.seek(0, os.SEEK_END))
            file.seek(position)
        # A compressed stream can be read only from its start.
        while position < offset:
            skipped = self.read(min(offset - position, BLOCK_BYTES))
            if not skipped:
                self.close()
                raise DataLossError(
                    "The file must not end before the saved position. Received: "
                    f"byte {offset} of {path!r}, which has {position} bytes. "
                    "Restore with the files that the state was saved with."
                )
            position += len(skipped)

    def read(self, size: int) -> bytes:
        """Returns the next `size` bytes, fewer only at the end."""
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
        data = b"".join(filter(None, pieces))
        self._rest = data[size:]
        return data[:size]


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


def _pieces(file: io.FileIO, path: str, compression: str) -> Iterator[bytes]:
    """Yields the bytes of one stream after another, as `cat a.gz b.gz` writes them."""
    if not compression:
        yield from iter(lambda: file.read(BLOCK_BYTES), b"")
        return
    inflater, data = None, b""
    try:
        while data or (data := file.read(_INPUT_BYTES)):
            inflater = inflater or zlib.decompressobj(wbits=_WINDOW_BITS[compression])
            spare = inflater.copy()
            try:
                piece = inflater.decompress(data)
            except zlib.error:
                # zlib drops what it inflated before an error: give it single bytes.
                yield from filter(None, (spare.decompress(bytes([b])) for b in data))
                raise
            if piece:
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
