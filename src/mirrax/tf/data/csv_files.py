"""Datasets of CSV files."""

from __future__ import annotations

import collections
import contextlib
import csv
import glob
import gzip
import io
import pathlib
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

from mirrax import TensorSpec
from mirrax.tf.data.datasets import Dataset
from mirrax.tf.dtypes import string
from mirrax.tf.errors import InvalidArgumentError, NotFoundError
from mirrax.tf.io.decoding import csv_column
from mirrax.tf.io.files import path_of

# The types of columns, the narrowest first.
_KINDS: tuple[Any, ...] = (np.int32, np.int64, np.float32, np.float64, str)


def CsvDataset(  # noqa: N802 - TensorFlow's name
    filenames: Any,
    record_defaults: Sequence[Any],
    compression_type: Any = None,
    buffer_size: Any = None,
    header: bool = False,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Any = None,
    exclude_cols: Any = None,
) -> Dataset:
    """Returns the lines of CSV files, each as a tuple of scalars.

    Args:
        filenames: One file, or several.
        record_defaults: For each selected column its dtype, or a list with the default
            for empty fields.
        compression_type: "GZIP" for compressed files.
        header: Whether the first line of each file is skipped.
        select_cols: The indices of the columns to read; all by default.
        exclude_cols: The indices of the columns to leave out.
    """
    paths = [path_of(name) for name in np.asarray(filenames, object).reshape(-1)]
    quotes: dict[str, Any] = {} if use_quote_delim else {"quoting": csv.QUOTE_NONE}

    def lines() -> Iterator[Any]:
        for path in paths:
            with _open(path, compression_type) as file:
                # A quoted field may contain newlines.
                reader = csv.reader(file, delimiter=field_delim, strict=True, **quotes)
                for index, fields in enumerate(_rows_of(reader, path)):
                    # In files of one column, an empty line is an empty field.
                    is_row = bool(fields) or len(record_defaults) == 1
                    if is_row and not (header and index == 0):
                        yield decoded(fields or [""])

    def decoded(fields: Sequence[str]) -> tuple[Any, ...]:
        numbers = range(len(fields)) if select_cols is None else select_cols
        chosen = [fields[i] for i in numbers if i not in (exclude_cols or ())]
        if len(chosen) != len(record_defaults):
            raise InvalidArgumentError(
                f"A line must have {len(record_defaults)} fields, as many as defaults. "
                f"Received: {len(chosen)} fields, {chosen}."
            )
        pairs = zip(chosen, record_defaults, strict=True)
        return tuple(csv_column([x], default, na_value)[0] for x, default in pairs)

    signature = tuple(TensorSpec([], _dtype(default)) for default in record_defaults)
    return Dataset.from_generator(lines, output_signature=signature)


def _rows_of(reader: Any, path: str) -> Iterator[Sequence[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise InvalidArgumentError(
            "The quotes of a CSV file must be closed, and doubled inside of others. "
            f"Received: line {reader.line_num} of {path!r}: {error}. Correct the line, "
            "or use `use_quote_delim=False`."
        ) from error


def _dtype(default: Any) -> np.dtype[Any]:
    is_type = isinstance(default, np.dtype | type)
    kind = np.dtype(default) if is_type else np.asarray(default).dtype
    if kind.kind in "OSU":
        return string
    if is_type or isinstance(default, np.ndarray):
        return kind
    return np.dtype({"float64": "float32", "int64": "int32"}.get(kind.name, kind.name))


def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Any = None,
    label_name: str | None = None,
    select_columns: Sequence[str] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: Any = None,
    num_parallel_reads: Any = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: Any = None,
    **_: Any,
) -> Dataset:
    """Returns batches of CSV files as dicts of columns, with labels if `label_name`.

    Missing dtypes are inferred from the first rows: integers, floats or strings. Empty
    fields become zero or "".
    """
    paths = _files(file_pattern)
    if column_names is None:
        with _open(paths[0], compression_type) as file:
            column_names = next(csv.reader(file, delimiter=field_delim))
    numbers = _numbers_of(select_columns, list(column_names))
    chosen = [column_names[number] for number in numbers]
    if label_name is not None and label_name not in chosen:
        raise ValueError(
            f"`label_name` must be one of the columns. Received: {label_name!r}, for "
            f"{chosen}. Select that column, too, or name one of these."
        )
    if column_defaults is None:
        rows = _first_rows(
            paths, compression_type, header, field_delim, num_rows_for_inference
        )
        for row in rows:
            if len(row) != len(column_names):
                raise ValueError(
                    "Each line must have a field for each column. Received: "
                    f"{len(row)} fields, for the columns {list(column_names)}. Mend "
                    "the line, or give all `column_names`."
                )
        missing = ("", na_value)
        column_defaults = [
            _inferred([row[i] for row in rows if row[i] not in missing])
            for i in numbers
        ]
    if len(column_defaults) != len(chosen):
        raise ValueError(
            "`column_defaults` must have an entry for each selected column. Received: "
            f"{len(column_defaults)} entries, for {chosen}."
        )
    lines: Any = CsvDataset(
        paths,
        column_defaults,
        compression_type,
        header=header,
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=numbers,
    )
    if shuffle:
        lines = lines.shuffle(shuffle_buffer_size, shuffle_seed)
    batches = lines.repeat(num_epochs).batch(batch_size, num_epochs is None)

    def named(*columns: Any) -> Any:
        # Keeps the order of the columns, unlike a dict, whose keys JAX sorts.
        features = collections.OrderedDict(zip(chosen, columns, strict=True))
        return features if label_name is None else (features, features.pop(label_name))

    return batches.map(named).prefetch(prefetch_buffer_size or 1)


def _numbers_of(selected: Any, names: list[str]) -> list[int]:
    """Returns the numbers of the selected columns, given by name or number."""
    if len(set(names)) < len(names):
        raise ValueError(
            f"The names of columns must differ. Received: {names}. Give others as "
            "`column_names`."
        )
    if selected is None:
        return list(range(len(names)))
    unknown = [x for x in selected if not isinstance(x, int) and x not in names]
    if unknown:
        raise ValueError(
            f"`select_columns` must be columns of the file. Received: {unknown}. Give "
            f"some of {names}, or their numbers."
        )
    return sorted(x if isinstance(x, int) else names.index(x) for x in selected)


def _files(pattern: Any) -> list[str]:
    patterns = [path_of(one) for one in np.asarray(pattern, object).reshape(-1)]
    found = sorted(path for one in patterns for path in glob.glob(one))
    if not found:
        raise NotFoundError(f"No files matched {patterns}. Correct the pattern.")
    return found


def _open(path: str, compression: Any) -> IO[str]:
    if compression == "ZLIB":
        data = zlib.decompress(pathlib.Path(path).read_bytes())
        return io.StringIO(data.decode(), newline="")
    if compression not in (None, "", "GZIP"):
        raise ValueError(
            '`compression_type` must be None, "", "GZIP" or "ZLIB". Received: '
            f"{compression!r}. Decompress the files."
        )
    return (gzip.open if compression else open)(path, "rt", newline="")


def _first_rows(
    paths: Any, compression: Any, header: bool, delimiter: str, count: Any
) -> list[Any]:
    rows: list[Any] = []
    for path in paths:
        with _open(path, compression) as file:
            rows += list(csv.reader(file, delimiter=delimiter))[int(header) :]
    return rows[:count]


def _inferred(fields: Sequence[str]) -> Any:
    """Returns the default for empty fields, of the narrowest type that fits all."""
    for kind in _KINDS:
        with contextlib.suppress(ValueError, OverflowError):
            if all(_holds(kind, field) for field in fields):
                return np.zeros(1, kind)
    raise AssertionError("every field is a string")


def _holds(kind: Any, field: str) -> bool:
    with np.errstate(over="ignore"):
        value = kind(field)
    return kind is not np.float32 or bool(np.isinf(value) == np.isinf(float(field)))
