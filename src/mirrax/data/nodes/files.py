"""The records of files."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.file_formats import Reader
from mirrax.data.file_formats.reader import check_files
from mirrax.data.plan.columns import STRING, Columns, as_strings
from mirrax.data.plan.node import UNKNOWN, Epoch, Node
from mirrax.data.plan.row_numbers import IndexedNode
from mirrax.data.plan.streams import Stream
from mirrax.errors import DataLossError
from mirrax.values.tensor_spec import TensorSpec

MakeReader = Callable[[tuple[str, ...]], Reader]
"""Opens files that are read one after another."""


@dataclasses.dataclass(frozen=True, eq=False)
class FileNode(Node):
    """A node that reads files, which can be sharded among workers."""

    is_expensive = True

    files: tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Files(FileNode):
    """The records of files, one file after another."""

    spec = TensorSpec((), STRING)
    cardinality = UNKNOWN

    make_reader: MakeReader = dataclasses.field(repr=False)
    kind: str

    @override
    def open(self, epoch: Epoch) -> Stream:
        return self.make_reader(self.files)


@dataclasses.dataclass(frozen=True, eq=False)
class ArrayRecords(IndexedNode, FileNode):
    """The records of ArrayRecord files, those of the first file first.

    Shuffles of any size move record numbers, not records.
    """

    chunk = 64
    spec = TensorSpec((), STRING)

    @override
    def look_up(self, numbers: np.ndarray[Any, Any]) -> Columns:
        records = np.empty(len(numbers), object)
        owners = np.searchsorted(self._ends, numbers, side="right")
        for owner in np.unique(owners).tolist():
            places = np.flatnonzero(owners == owner)
            start = self._ends[owner - 1] if owner else 0
            own = (numbers[places] - start).tolist()
            records[places] = as_strings(self._readers[owner].read(own))
        return [records]

    @property
    @override
    def cardinality(self) -> int:
        return self._ends[-1] if self._ends else 0

    @functools.cached_property
    def _readers(self) -> list[_Reader]:
        return [_Reader(path) for path in check_files(self.files)]

    @functools.cached_property
    def _ends(self) -> list[int]:
        """For each file, the number of the record after its last one."""
        counts = [reader.num_records for reader in self._readers]
        return list(itertools.accumulate(counts))


class _Reader:
    """One file; damage is an error that names it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._reader = _open(path)
        if not self._reader.ok():
            raise _damaged(path, "it is no complete ArrayRecord file")
        self.num_records: int = self._reader.num_records()

    def read(self, numbers: list[int]) -> list[bytes]:
        try:
            records: list[bytes] = self._reader.read(numbers)
        except RuntimeError as error:
            raise _damaged(self._path, f"{error}; records {numbers}") from error
        return records


def _open(path: str) -> Any:
    try:
        from array_record.python import array_record_module
    except ImportError as error:
        raise ImportError(
            "ArrayRecord files need the package `array-record`. Install it with "
            "`pip install mirrax[data]`."
        ) from error
    # Records are read in any order, so reading ahead is useless.
    return array_record_module.ArrayRecordReader(path, "readahead_buffer_size:0")


def _damaged(path: str, found: str) -> DataLossError:
    return DataLossError(
        "An ArrayRecord file must be complete and match its checksums. Received: "
        f"{path!r}: {found}. Copy or write the file again."
    )
