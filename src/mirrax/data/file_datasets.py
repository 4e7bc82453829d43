"""Datasets of the records of files: one class for each format."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mirrax.data.dataset import Dataset
from mirrax.data.nodes.files import Files, MakeReader
from mirrax.data.readers import FixedLengthReader, TextLineReader, TFRecordReader


class _FileDataset(Dataset):
    """The records of files.

    Args:
        filenames: A path, several, or a dataset of paths.
        make_reader: Opens files.
        kind: What kind of files they are.
    """

    def __init__(self, filenames: Any, make_reader: MakeReader, kind: str) -> None:
        super().__init__(Files(_names(filenames), make_reader, kind))


class TFRecordDataset(_FileDataset):
    """The records of TFRecord files, checked, as bytes."""

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
    ) -> None:
        compression = compression_type or ""
        make_reader = functools.partial(TFRecordReader, compression=compression)
        super().__init__(filenames, make_reader, "TFRecord")


class TextLineDataset(_FileDataset):
    """The lines of text files, as bytes."""

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
    ) -> None:
        compression = compression_type or ""
        make_reader = functools.partial(TextLineReader, compression=compression)
        super().__init__(filenames, make_reader, "text")


class FixedLengthRecordDataset(_FileDataset):
    """The records of files in which each has the same length, as bytes."""

    def __init__(
        self,
        filenames: Any,
        record_bytes: int,
        header_bytes: int = 0,
        footer_bytes: int = 0,
        compression_type: str | None = None,
    ) -> None:
        make_reader = functools.partial(
            FixedLengthReader,
            record_bytes=record_bytes,
            header_bytes=header_bytes,
            footer_bytes=footer_bytes,
            compression=compression_type or "",
        )
        super().__init__(filenames, make_reader, "fixed length")


def _names(filenames: Any) -> tuple[str, ...]:
    if isinstance(filenames, Dataset):
        return tuple(name.decode() for name in filenames)
    if isinstance(filenames, str | bytes):
        filenames = [filenames]
    names = np.asarray(filenames, object).ravel().tolist()
    return tuple(n.decode() if isinstance(n, bytes) else str(n) for n in names)
