"""Datasets of the records of files: one class for each format."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mirrax.data.dataset import Dataset
from mirrax.data.file_formats import (
    FixedLengthReader,
    Reader,
    TextLineReader,
    TFRecordReader,
)
from mirrax.data.nodes.files import ArrayRecords, Files, MakeReader
from mirrax.data.nodes.parquet import ParquetRows
from mirrax.data.thread_pool import num_threads


class _FileDataset(Dataset):
    """The records of files.

    Args:
        filenames: A path, several, or a dataset of paths.
        num_parallel_reads: How many files are interleaved, read in threads; by default
            files are read one after another.
    """

    def __init__(
        self,
        filenames: Any,
        make_reader: MakeReader,
        kind: str,
        num_parallel_reads: int | None = None,
    ) -> None:
        is_dataset = isinstance(filenames, Dataset)
        if num_parallel_reads is None and not is_dataset:
            super().__init__(Files(_names(filenames), make_reader, kind))
            return
        if not is_dataset:
            filenames = Dataset.from_tensor_slices(list(_names(filenames)))
        cycle = 1 if num_parallel_reads is None else num_threads(num_parallel_reads)
        files = filenames.interleave(
            lambda name: Dataset(Files((name.decode(),), make_reader, kind)),
            cycle_length=cycle,
            num_parallel_calls=num_parallel_reads,
        )
        super().__init__(files.plan)


class _RecordDataset(_FileDataset):
    """Files that need no more than a reader."""

    _reader: type[Reader]
    _kind: str

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
    ) -> None:
        make = functools.partial(self._reader, compression=compression_type or "")
        super().__init__(filenames, make, self._kind, num_parallel_reads)


class TFRecordDataset(_RecordDataset):
    """The records of TFRecord files, checked, as bytes.

    With `num_parallel_reads`, so many files take turns, and are read in threads.

    >>> with mirrax.data.TFRecordWriter("rows.tfrecord") as writer:
    ...     writer.write(b"first")
    ...     writer.write(b"second")
    >>> list(TFRecordDataset("rows.tfrecord"))
    [b'first', b'second']
    """

    _reader, _kind = TFRecordReader, "TFRecord"


class TextLineDataset(_RecordDataset):
    """The lines of text files, as bytes.

    With `num_parallel_reads`, so many files take turns, and are read in threads.

    >>> with open("lines.txt", "w") as file:
    ...     print("one", "two", sep=chr(10), file=file)
    >>> list(TextLineDataset("lines.txt"))
    [b'one', b'two']
    """

    _reader, _kind = TextLineReader, "text"


class FixedLengthRecordDataset(_FileDataset):
    """The records of files in which each has the same length, as bytes.

    >>> with open("records", "wb") as file:
    ...     _ = file.write(b"abcdef")
    >>> list(FixedLengthRecordDataset("records", record_bytes=3))
    [b'abc', b'def']
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: int,
        header_bytes: int = 0,
        footer_bytes: int = 0,
        buffer_size: int | None = None,
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
    ) -> None:
        make_reader = functools.partial(
            FixedLengthReader,
            record_bytes=record_bytes,
            header_bytes=header_bytes,
            footer_bytes=footer_bytes,
            compression=compression_type or "",
        )
        super().__init__(filenames, make_reader, "fixed length", num_parallel_reads)


class ArrayRecordDataset(Dataset):
    """The records of ArrayRecord files, as bytes.

    They can be looked up by number, so `shuffle` takes no memory for records, and a
    position is found at once. Needs the extra `data`.

    >>> dataset = ArrayRecordDataset(["train-0.array_record"])
    >>> print(dataset.batch(8).explain())
    Batch(size=8, drop_remainder=False)
      ArrayRecords(files=('train-0.array_record',))
    """

    def __init__(self, filenames: Any) -> None:
        super().__init__(ArrayRecords(_names(filenames)))


class ParquetDataset(Dataset):
    """The rows of Parquet files, as dictionaries of their columns.

    Needs the extra `data`.

    Args:
        filenames: A path, or several.
        columns: The columns to read; all if it is not given.

    >>> dataset = ParquetDataset("train.parquet", columns=["image", "label"])
    >>> print(dataset.explain())
    ParquetRows(files=('train.parquet',), columns=('image', 'label'))
    """

    def __init__(self, filenames: Any, columns: Sequence[str] | None = None) -> None:
        chosen = None if columns is None else tuple(columns)
        super().__init__(ParquetRows(_names(filenames), chosen))


def _names(filenames: Any) -> tuple[str, ...]:
    if isinstance(filenames, str | bytes):
        filenames = [filenames]
    names = np.asarray(filenames, object).ravel().tolist()
    return tuple(n.decode() if isinstance(n, bytes) else str(n) for n in names)
