"""`tf.train.Example`: named lists of bytes, floats or integers, in Protobuf's format.

    Example   { Features features = 1; }
    Features  { map<string, Feature> feature = 1; }   // entries { key = 1; value = 2; }
    Feature   { BytesList = 1, FloatList = 2 or Int64List = 3 }
    *List     { repeated value = 1; }                 // numbers are packed, or not

Nothing here needs the protobuf package.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
DEFAULT_FIX = "Write the example again, or correct the features."

# The fields of Feature, which are the kinds of values.
_BYTES, _FLOAT, _INT64 = 1, 2, 3
_DTYPES = {
    _BYTES: np.dtype(object),
    _FLOAT: np.dtype(np.float32),
    _INT64: np.dtype(np.int64),
}
_KIND_NAMES = {_BYTES: "bytes", _FLOAT: "float32", _INT64: "int64"}
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
# Fewer records are read one by one as fast as all at once.
_MIN_RECORDS_AT_ONCE = 4


@dataclasses.dataclass(frozen=True)
class FixedLenFeature:
    """A feature with the same number of values in every example.

    Args:
        shape: The shape of the values of one example; () for a single value.
        dtype: float32, int64, or bytes for strings.
        default_value: What an example without the feature has; None makes it an error.
    """

    shape: Sequence[int]
    dtype: Any
    default_value: Any = None

    def __post_init__(self) -> None:
        _kind_of(self.dtype)
        if any(size is None or size < 0 for size in self.shape):
            raise ValueError(
                "The shape of a `FixedLenFeature` must be known. "
                f"Received: shape={self.shape!r}. Use a `VarLenFeature`."
            )


@dataclasses.dataclass(frozen=True)
class VarLenFeature:
    """A feature with any number of values in each example.

    Args:
        dtype: float32, int64, or bytes for strings.
    """

    dtype: Any

    def __post_init__(self) -> None:
        _kind_of(self.dtype)


AnyFeature = FixedLenFeature | VarLenFeature


def parse_example(
    serialized: Sequence[bytes], features: Mapping[str, AnyFeature]
) -> dict[str, Any]:
    """Returns the features of a batch of serialized examples.

    A `FixedLenFeature` gives one array with a row for each example, a `VarLenFeature`
    a list with an array for each. Strings are arrays of bytes objects.

    >>> records = [Example.of(x=[i]).SerializeToString() for i in (7, 8)]
    >>> parse_example(records, {"x": FixedLenFeature((), np.int64)})
    {'x': array([7, 8])}

    Raises:
        ValueError: An example does not have the features.
        DataLossError: Bytes that are no example.
    """
    records = _check_serialized(serialized)
    columns = [_make_column(name, f, len(records)) for name, f in features.items()]
    for index in _parse_alike(records, columns):
        found = _spans_of(records[index], index)
        for column in columns:
            column.put_one(index, *_values_of(records[index], found.get(column.name)))
    return {column.name: column.result() for column in columns}


def parse_single_example(
    serialized: bytes, features: Mapping[str, AnyFeature]
) -> dict[str, Any]:
    """Returns the features of one serialized example.

    >>> parse_single_example(
    ...     Example.of(x=[1, 2]).SerializeToString(), {"x": VarLenFeature(np.int64)}
    ... )
    {'x': array([1, 2])}
    """
    parsed = parse_example([serialized], features)
    return {name: rows[0] for name, rows in parsed.items()}
