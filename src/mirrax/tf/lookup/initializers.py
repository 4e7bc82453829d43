"""Keys and values that a table is filled with."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from mirrax.tf.dtypes import string
from mirrax.tf.tensors.tensor import holds_strings, string_tensor


class KeyValueTensorInitializer:
    """Keys and values, one after another.

    Args:
        keys: The keys.
        values: The values.
        key_dtype: The dtype of the keys; by default, their own.
        value_dtype: The dtype of the values; by default, their own.
    """

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: Any = None,
    ) -> None:
        self.keys, self.values = (
            array_of(keys, key_dtype),
            array_of(values, value_dtype),
        )
        if self.keys.shape != self.values.shape:
            raise ValueError(
                "A table needs a value for each key. Received: keys of shape "
                f"{tuple(self.keys.shape)}, values of shape {tuple(self.values.shape)}."
            )
        self.key_dtype, self.value_dtype = self.keys.dtype, self.values.dtype


class TextFileIndex:
    """Which part of a line of a file is a key or a value."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TextFileInitializer(KeyValueTensorInitializer):
    """The lines of a file.

    Args:
        filename: The path.
        key_dtype: The dtype of the keys.
        key_index: A column, or one of `TextFileIndex`.
        value_dtype: The dtype of the values.
        value_index: A column, or one of `TextFileIndex`.
        vocab_size: How many lines are read; all by default.
        delimiter: Between the columns.
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: Any = None,
        value_index_offset: int = 0,
    ) -> None:
        lines = pathlib.Path(filename).read_text().splitlines()[:vocab_size]
        super().__init__(
            [_part(line, n, key_index, delimiter, 0) for n, line in enumerate(lines)],
            [
                _part(line, n, value_index, delimiter, value_index_offset)
                for n, line in enumerate(lines)
            ],
            key_dtype,
            value_dtype,
        )


def _part(line: str, number: int, index: int, delimiter: str, offset: int) -> Any:
    if index == TextFileIndex.LINE_NUMBER:
        return number + offset
    return line if index == TextFileIndex.WHOLE_LINE else line.split(delimiter)[index]


def array_of(values: Any, dtype: Any) -> np.ndarray[Any, Any]:
    if holds_strings(values) and (dtype is None or dtype == string):
        return string_tensor(values)
    return np.asarray(values, dtype)
