"""The bytes of a file, plain or compressed, from any position on."""

from __future__ import annotations

import abc
import os
import stat
import weakref
import zlib

from typing_extensions import override

from mirrax.errors import DataLossError

# What zlib calls the two containers of a deflated stream.
_WINDOW_BITS = {"GZIP": 31, "ZLIB": 15}
_INPUT_BYTES = 1 << 16
# Up to a thousand times as many bytes can be in a compressed file as it has: too many
# to be kept in memory while the end of a record is searched.
_MAX_RATIO = 20
_MIN_RECORD_LIMIT = 1 << 26


class ByteSource(abc.ABC):
    """The bytes of one file, in order.

    `size` is how many there are, None if only reading them can tell. A record may have
    `max_record_bytes`; None if the size is the limit.
    """

    size: int | None = None
    max_record_bytes: int | None = None

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        # Closes the file when iteration stops early.
        weakref.finalize(self, self._file.close)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    @abc.abstractmethod
    def read(self, size: int) -> bytes:
        """Returns the next bytes, at most `size`, and none only at the end."""


def open_source(path: str, compression: str, offset: int = 0) -> ByteSource:
    """Returns the bytes of a file, those after compression, from `offset` on."""
    if compression:
        return _open_compressed(path, compression, offset)
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
        status = os.fstat(self._file.fileno())
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        if self.size is not None and offset > self.size:
            self.close()
            raise _ends_before(path, offset, self.size)
        if offset:
            self._file.seek(offset)

    @override
    def read(self, size: int) -> bytes:
        return self._file.read(size)


class _CompressedSource(ByteSource):
    """Inflates one stream after another, as `cat a.gz b.gz` writes them."""

    def __init__(self, path: str, compression: str) -> None:
        super().__init__(path)
        self._compression = compression
        self._input = b""
        self._chunk_bytes = _INPUT_BYTES
        self._inflater: zlib._Decompress | None = None
        self._error: DataLossError | None = None
        size = os.fstat(self._file.fileno()).st_size
        self.max_record_bytes = max(_MIN_RECORD_LIMIT, _MAX_RATIO * size)

    @override
    def read(self, size: int) -> bytes:
        pieces = []
        while size > 0 and (piece := self._next_piece(size)):
            pieces.append(piece)
            size -= len(piece)
        if not pieces and size > 0 and self._error is not None:
            raise self._error
        return b"".join(pieces)

    def _next_piece(self, size: int) -> bytes:
        while self._error is None:
            if not self._input:
                self._input = self._file.read(_INPUT_BYTES)
            is_at_end = not self._input
            if self._inflater is None:
                if is_at_end:
                    return b""
                bits = _WINDOW_BITS[self._compression]
                self._inflater = zlib.decompressobj(wbits=bits)
            if piece := self._inflate(self._inflater, size):
                return piece
            if is_at_end and self._inflater is not None:
                self._error = self._damaged("the file ends too early")
        return b""

    def _inflate(self, inflater: zlib._Decompress, size: int) -> bytes:
        spare = inflater.copy()
        chunk = self._input[: self._chunk_bytes]
        try:
            piece = inflater.decompress(chunk, size)
        except zlib.error as error:
            # zlib throws away what came before the error in the same chunk, so try
            # again with less at a time until only the bad byte is left.
            if len(chunk) <= 1:
                self._error = self._damaged(str(error))
            self._chunk_bytes = len(chunk) // 2
            self._inflater = spare
            return b""
        rest = inflater.unconsumed_tail
        if inflater.eof:
            rest = inflater.unused_data
            self._inflater = None
        self._input = rest + self._input[self._chunk_bytes :]
        return piece

    def _damaged(self, found: str) -> DataLossError:
        return DataLossError(
            f"A file must hold the {self._compression} data it is read as. "
            f"Received: {self._path!r}, where {found}, before byte "
            f"{self._file.tell()}. Write the file again, or name its compression."
        )


def _open_compressed(path: str, compression: str, offset: int) -> _CompressedSource:
    source = _CompressedSource(path, compression)
    position = 0
    # A compressed stream can be read only from its start.
    while position < offset:
        skipped = source.read(min(offset - position, 1 << 20))
        if not skipped:
            source.close()
            raise _ends_before(path, offset, position)
        position += len(skipped)
    return source


def _ends_before(path: str, offset: int, size: int) -> DataLossError:
    return DataLossError(
        "A file must reach to the position that reading goes on from. Received: "
        f"byte {offset} of {path!r}, which has {size} bytes. "
        "Restore with the files that the state was saved with."
    )
