"""Columns of elements as bytes.

    uint32 length of the header | header, in JSON | the data of all arrays

The header has `[dtype, shape]` for each array, or a list of them for a column of
unequal rows. Strings are stored as their lengths (int64), then their bytes.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

from mirrax.data.plan.columns import STRING, Columns, as_objects

_LENGTH = struct.Struct("<I")
_KINDS = "biufcV"


def encode_columns(columns: Columns) -> bytes:
    """Returns columns as bytes."""
    data: list[bytes] = []
    header = [
        _encode(column, data)
        if isinstance(column, np.ndarray)
        else {"rows": [_encode(np.asarray(row), data) for row in column]}
        for column in columns
    ]
    text = json.dumps(header).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *data])


def decode_columns(record: bytes) -> Columns:
    """Returns the columns in bytes; the errors of other bytes are no certain type.

    Allocates no more than there are bytes.
    """
    (length,) = _LENGTH.unpack_from(record)
    header = json.loads(record[_LENGTH.size : _LENGTH.size + length])
    data = _Data(memoryview(record)[_LENGTH.size + length :])
    columns = [
        [data.decode(*row) for row in described["rows"]]
        if isinstance(described, dict)
        else data.decode(*described)
        for described in header
    ]
    rows = {len(column) for column in columns}
    if data.is_left or len(rows) != 1 or 0 in rows:
        raise ValueError("columns of different lengths")
    return columns


def _encode(array: np.ndarray[Any, Any], data: list[bytes]) -> Any:
    """Appends an array's bytes to `data`, and returns its description."""
    if array.dtype == STRING:
        texts = array.ravel().tolist()
        if not all(isinstance(text, bytes) for text in texts):
            kinds = sorted({type(text).__name__ for text in texts})
            raise TypeError(
                "Elements in files are arrays of numbers and strings. Received: "
                f"{', '.join(kinds)}. Use `map` to convert the elements."
            )
        data.append(np.fromiter(map(len, texts), np.int64, len(texts)).tobytes())
        data.extend(texts)
        return ["string", array.shape]
    if array.dtype.kind not in _KINDS:
        raise TypeError(
            "Elements in files are arrays of numbers and strings. Received: dtype "
            f"{array.dtype}. Use `map` to convert the elements."
        )
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    data.append(native.tobytes())
    return [native.dtype.name, native.shape]


class _Data:
    """Takes arrays from the front of bytes."""

    def __init__(self, rest: memoryview) -> None:
        self._rest = rest

    @property
    def is_left(self) -> bool:
        return bool(self._rest)

    def decode(self, kind: str, shape: list[int]) -> np.ndarray[Any, Any]:
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"shape {shape}")
        if kind != "string":
            return self._numbers(np.dtype(kind), math.prod(shape)).reshape(shape)
        lengths = self._numbers(np.dtype(np.int64), math.prod(shape))
        if len(lengths) and lengths.min() < 0:
            raise ValueError("a string of negative length")
        texts = [self._take(length).tobytes() for length in lengths.tolist()]
        return as_objects(texts).reshape(shape)

    def _numbers(self, dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
        if dtype.kind not in _KINDS or not dtype.itemsize:
            raise ValueError(f"dtype {dtype}")
        return np.frombuffer(self._take(count * dtype.itemsize), dtype).copy()

    def _take(self, size: int) -> memoryview:
        if size > len(self._rest):
            raise ValueError(f"{size} bytes where {len(self._rest)} are left")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken
