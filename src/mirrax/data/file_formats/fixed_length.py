"""Files of records that all have the same number of bytes."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from mirrax.data.file_formats.reader import Block, Reader, Records
from mirrax.errors import DataLossError


class FixedLengthReader(Reader):
    """Reads files of records of one size.

    Args:
        record_bytes: The size of a record.
        header_bytes: How much to skip at the start of each file.
        footer_bytes: How much to leave out at the end of each file.
    """

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

    @override
    def _split(self, block: Block) -> Records:
        size = block.offset + len(block.data) if block.is_last else block.file_size
        error = None if size is None else self._find_misfit(block.path, size)
        # Only the end of a compressed file tells its size: its records came before.
        if error is not None and not block.is_last:
            return Records(error=error)
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
