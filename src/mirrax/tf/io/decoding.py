"""Decoding of bytes and CSV."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np

from mirrax.errors import InvalidArgumentError
from mirrax.tf.tensors.tensor import string_tensor, tensor


def decode_raw(
    input_bytes: Any,
    out_type: Any,
    little_endian: bool = True,
    fixed_length: int | None = None,
    name: Any = None,
) -> Any:
    """Returns bytes as numbers."""
    if fixed_length is not None:
        raise NotImplementedError(
            "`fixed_length` is not supported. Received: "
            f"fixed_length={fixed_length}. Truncate or pad the bytes first."
        )
    kind = np.dtype(out_type).newbyteorder("<" if little_endian else ">")
    array = np.asarray(input_bytes, dtype=object)
    rows = [np.frombuffer(item, kind) for item in array.reshape(-1)]
    stacked = np.stack(rows).reshape(*array.shape, -1)
    return tensor(stacked.astype(kind.newbyteorder("=")))


def decode_csv(
    records: Any,
    record_defaults: Any,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Any = None,
    name: Any = None,
) -> list[Any]:
    """Returns a tensor for each column of one line, or of several.

    Args:
        record_defaults: For each column its dtype, or a list with the default for empty
            fields.
    """
    array = np.asarray(records, dtype=object)
    lines = [_text(line) for line in array.reshape(-1)]
    options: dict[str, Any] = {} if use_quote_delim else {"quoting": csv.QUOTE_NONE}
    rows = list(csv.reader(lines, delimiter=field_delim, **options))
    columns = list(zip(*rows, strict=True))
    if select_cols is not None:
        columns = [columns[index] for index in select_cols]
    return [
        _tensor_of(csv_column(fields, default, na_value).reshape(array.shape))
        for fields, default in zip(columns, record_defaults, strict=True)
    ]


def _tensor_of(array: np.ndarray[Any, Any]) -> Any:
    return string_tensor(array) if array.dtype == object else tensor(array)


def _text(line: Any) -> str:
    return line.decode() if isinstance(line, bytes) else str(line)


def csv_column(fields: Any, default: Any, na_value: str) -> np.ndarray[Any, Any]:
    """Returns fields as numbers, or as objects: bytes."""
    is_type = isinstance(default, np.dtype | type)
    filler = np.asarray([] if is_type else default).reshape(-1)
    kind = np.dtype(default) if is_type else filler.dtype
    is_text = kind.kind in "OSU"
    values = []
    for field in fields:
        missing = field in ("", na_value)
        if missing and not len(filler):
            raise InvalidArgumentError(
                "A field without default must not be empty. Received: an empty field. "
                "Give the column a default in `record_defaults`."
            )
        try:
            value = filler[0] if missing else field if is_text else kind.type(field)
        except (ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"A field must be a valid {kind}, as its default. Received: {field!r}. "
                "Give the column a default of another dtype."
            ) from error
        values.append(value)
    return np.asarray(string_tensor(values)) if is_text else np.array(values, kind)
