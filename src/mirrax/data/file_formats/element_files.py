"""Files with the elements of a dataset, for `cache` and `save`.

A TFRecord file, whose records have checksums:

    {"format": "mirrax-elements", "version": 2, "spec": ...}
    some elements                       (their columns, as below)
    ...
    the number of elements              (8 bytes)

The file is written beside its place and moved there when it is complete. The last
record shows that nothing is missing at the end. Columns of elements:

    uint32 length of the header | header, in JSON | the data of all arrays

The header has `[dtype, shape]` for each array, or a list of them for a column of
unequal rows. Strings are stored as their lengths (int64), then their bytes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from mirrax.data.file_formats import TFRecordReader
from mirrax.data.file_formats.tfrecord import TFRecordWriter
from mirrax.data.plan.columns import STRING, Columns, as_objects, num_rows
from mirrax.errors import DataLossError
from mirrax.values.tensor_spec import TensorSpec

_FORMAT = "mirrax-elements"
_VERSION = 2
_COUNT = struct.Struct("<Q")
# Elements can be empty, but programs allocate memory for as many as there are.
_MAX_ELEMENTS_PER_BYTE = 1000
# What parsing damaged bytes can raise.
_PARSING_ERRORS = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    struct.error,
    RecursionError,
    OverflowError,
)
# Length, checksum, number, checksum.
_LAST_BYTES = 12 + _COUNT.size + 4


def write_elements(file: str, spec: Any, chunks: Iterable[Columns]) -> None:
    """Writes elements to a file, which is complete or as it was before.

    Args:
        file: The path, in an existing folder.
    """
    header = {"format": _FORMAT, "version": _VERSION, "spec": _describe(spec)}
    temporary = f"{file}.{uuid.uuid4().hex}"
    try:
        count = 0
        with TFRecordWriter(temporary) as writer:
            writer.write(json.dumps(header).encode())
            for columns in chunks:
                writer.write(encode_columns(columns))
                count += num_rows(columns)
            writer.write(_COUNT.pack(count))
            writer.sync()
        os.replace(temporary, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


class ElementFile:
    """A file that `write_elements` wrote.

    Raises:
        DataLossError: The file is damaged, incomplete, or another kind of file.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        with _reading(file):
            header = json.loads(TFRecordReader([file]).read(1)[0])
            if header.get("format") != _FORMAT:
                raise ValueError("it begins unlike a file of elements")
            if header.get("version") != _VERSION:
                version = header.get("version")
                raise ValueError(f"its format has version {version!r}, not {_VERSION}")
            self.spec = _build_spec(header["spec"])
            self.structure: Any = jax.tree.structure(self.spec)
            self.num_elements = self._read_count()

    def chunks(self) -> Iterator[Columns]:
        reader = TFRecordReader([self._file])
        found = 0
        with _reading(self._file):
            reader.read(1)
            while found < self.num_elements:
                columns = decode_columns(reader.read(1)[0])
                if len(columns) != self.structure.num_leaves:
                    raise ValueError("its elements do not match its header")
                found += num_rows(columns)
                yield columns
            if found != self.num_elements or len(reader.read(2)) != 1:
                raise ValueError(f"it has other elements than {self.num_elements}")

    def _read_count(self) -> int:
        with open(self._file, "rb") as stream:
            stream.seek(-_LAST_BYTES, os.SEEK_END)
            offset = stream.tell()
        reader = TFRecordReader([self._file])
        reader.restore([0, offset])
        (count,) = _COUNT.unpack(reader.read(1)[0])
        if count > _MAX_ELEMENTS_PER_BYTE * (offset + _LAST_BYTES):
            raise ValueError(f"it is too short for {count} elements")
        return int(count)


@contextlib.contextmanager
def _reading(file: str) -> Iterator[None]:
    try:
        yield
    except _PARSING_ERRORS as error:
        raise DataLossError(
            "A file of elements must be as `cache` or `save` wrote it. Received: "
            f"{file!r}: {type(error).__name__}: {error}. Delete it, and write it again."
        ) from error


def _describe(spec: Any) -> Any:
    """Returns a spec as a JSON value: a list for an array, a dict for a container."""
    match spec:
        case TensorSpec():
            kind = "string" if spec.dtype == STRING else spec.dtype.name
            return [None if spec.shape is None else list(spec.shape), kind]
        case dict() if type(spec) is dict:
            items = [[key, _describe(item)] for key, item in spec.items()]
            if all(isinstance(key, str | int) for key, _ in items):
                return {"dict": items}
        case list() | tuple() if type(spec) in (list, tuple):
            return {type(spec).__name__: [_describe(item) for item in spec]}
        case None:
            return {"none": []}
    raise TypeError(
        "Elements in files are nested in dicts with text as keys, tuples and lists. "
        f"Received: a {type(spec).__name__}. Use `map` to convert the elements."
    )


def _build_spec(described: Any) -> Any:
    if isinstance(described, list):
        shape, dtype = described
        return TensorSpec(shape, STRING if dtype == "string" else np.dtype(dtype))
    ((kind, items),) = described.items()
    if kind == "dict":
        return {key: _build_spec(item) for key, item in items}
    if kind == "none":
        return None
    return {"list": list, "tuple": tuple}[kind](map(_build_spec, items))


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
    data = _Data(record, _LENGTH.size + length)
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
    """Takes arrays from the front of bytes; raises if there are too few."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._next = start

    @property
    def is_left(self) -> bool:
        return self._next < len(self._data)

    def decode(self, kind: str, shape: list[int]) -> np.ndarray[Any, Any]:
        if kind != "string":
            return self._numbers(np.dtype(kind), shape)
        lengths = self._numbers(np.dtype(np.int64), shape)
        ends = self._next + np.cumsum(lengths.ravel())
        self._next = int(ends[-1]) if len(ends) else self._next
        if lengths.size and (lengths.min() < 0 or self._next > len(self._data)):
            raise ValueError("strings beyond the end")
        starts = ends - lengths.ravel()
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        return as_objects([self._data[a:b] for a, b in pairs]).reshape(shape)

    def _numbers(self, dtype: np.dtype[Any], shape: list[int]) -> np.ndarray[Any, Any]:
        found = np.frombuffer(self._data, dtype, math.prod(shape), self._next)
        self._next += found.nbytes
        return found.reshape(shape).copy()
