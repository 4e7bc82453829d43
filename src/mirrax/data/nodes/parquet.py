"""The rows of Parquet files."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.file_formats.reader import check_files
from mirrax.data.nodes.buffered import BufferedStream
from mirrax.data.nodes.files import FileNode
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import STRING, Column, Columns
from mirrax.data.plan.node import Epoch
from mirrax.data.plan.streams import State, Stream, as_count
from mirrax.errors import DataLossError, InvalidArgumentError
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class ParquetRows(FileNode):
    """The rows of Parquet files, as dictionaries of their columns."""

    columns: tuple[str, ...] | None = None

    @override
    def open(self, epoch: Epoch) -> Stream:
        return BufferedStream(_RowGroups(self), chunk=64)

    @functools.cached_property
    def spec(self) -> Any:
        """Shapes and dtypes of a row; sizes of lists are not known."""
        if not self.files:
            return None
        schema = open_parquet(check_files(self.files)[0]).schema_arrow
        names = self.names_in(schema, self.files[0])
        return {name: _spec(schema.field(name).type) for name in names}

    @functools.cached_property
    def cardinality(self) -> int:
        """The number of rows, which the files say."""
        files = [open_parquet(path) for path in check_files(self.files)]
        return sum(file.metadata.num_rows for file in files)

    def names_in(self, schema: Any, path: str) -> list[str]:
        """Returns the columns to read, in the order in which elements hold them."""
        missing = [name for name in self.columns or () if name not in schema.names]
        if missing:
            raise ValueError(
                f"The columns to read must be in every file. Received: {missing} for "
                f"{path!r}, which has {schema.names}."
            )
        return sorted(schema.names if self.columns is None else self.columns)


class _RowGroups(Stream):
    """Gives all rows of a group at once; the position is a file and a group."""

    def __init__(self, node: ParquetRows) -> None:
        self._node = node
        self._files = check_files(node.files)
        self.structure = node.structure
        self._file: Any = None
        self._file_index = self._group = 0

    @override
    def take(self, limit: int) -> Columns | None:
        while self._file_index < len(self._files):
            if self._file is None:
                self._file = open_parquet(self._files[self._file_index])
            if self._group < self._file.num_row_groups:
                columns = self._read_group()
                self._group += 1
                if cols.num_rows(columns):
                    return columns
            else:
                self._file.close()
                self._file = None
                self._file_index, self._group = self._file_index + 1, 0
        return None

    @override
    def state(self) -> State:
        return [self._file_index, self._group]

    @override
    def restore(self, state: State) -> None:
        file, group = state
        self._file_index = as_count(file, len(self._files))
        self._group = as_count(group)

    def _read_group(self) -> Columns:
        path = self._files[self._file_index]
        names = self._node.names_in(self._file.schema_arrow, path)
        try:
            table = self._file.read_row_group(self._group, columns=names)
        except OSError as error:
            raise _damaged(path, f"group {self._group}: {error}") from error
        return [_column(table.column(name), name, path) for name in names]


def open_parquet(path: str) -> Any:
    """Returns a Parquet file, to read from."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet files need the package `pyarrow`. Install it with "
            "`pip install mirrax[data]`."
        ) from error
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise _damaged(path, str(error)) from error


def _column(values: Any, name: str, path: str) -> Column:
    if values.null_count:
        raise InvalidArgumentError(
            "Every row must have a value in every column that is read. Received: "
            f"{values.null_count} missing value(s) in the column {name!r} of {path!r}. "
            "Fill them in, or leave the column out with `columns`."
        )
    spec = _spec(values.type)
    if spec.dtype == STRING:
        return cols.as_strings(values.to_pylist())
    if spec.shape == ():
        return np.asarray(values.to_numpy())
    return cols.stack([np.asarray(row, spec.dtype) for row in values.to_pylist()])


def _spec(kind: Any) -> TensorSpec:
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        inner = _spec(kind.value_type)
        return TensorSpec((None, *(inner.shape or ())), inner.dtype)
    if types.is_fixed_size_list(kind):
        inner = _spec(kind.value_type)
        return TensorSpec((kind.list_size, *(inner.shape or ())), inner.dtype)
    is_text = types.is_string(kind) or types.is_large_string(kind)
    if is_text or types.is_binary(kind) or types.is_large_binary(kind):
        return TensorSpec((), STRING)
    try:
        return TensorSpec((), kind.to_pandas_dtype())
    except NotImplementedError as error:
        raise InvalidArgumentError(
            "A column must hold numbers, strings or lists of numbers. Received: a "
            f"column of type {kind}. Leave it out with `columns`."
        ) from error


def _damaged(path: str, found: str) -> DataLossError:
    return DataLossError(
        f"A Parquet file must be complete. Received: {path!r}: {found}. Copy or write "
        "the file again."
    )
