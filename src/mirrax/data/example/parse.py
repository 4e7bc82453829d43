"""From serialized examples to arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

from mirrax.data.example.batch import parse_same_layout
from mirrax.data.example.fast_path import spans_of
from mirrax.data.example.feature_columns import make_column
from mirrax.data.example.features import AnyFeature
from mirrax.data.example.spans import values_of


def parse_example(
    serialized: Sequence[bytes], features: Mapping[str, AnyFeature]
) -> dict[str, Any]:
    """Returns the features of a batch of serialized examples.

    A `FixedLenFeature` gives one array with a row for each example, a `VarLenFeature`
    a list with an array for each. Strings are arrays of bytes objects.

    >>> import numpy as np
    >>> from mirrax.data.example import Example, Feature, Features
    >>> from mirrax.data.example import FixedLenFeature, Int64List
    >>> feature = {"x": Feature(int64_list=Int64List(value=[7]))}
    >>> record = Example(features=Features(feature=feature)).SerializeToString()
    >>> parse_example([record, record], {"x": FixedLenFeature((), np.int64)})
    {'x': array([7, 7])}

    Raises:
        ValueError: An example does not have the features.
        DataLossError: Bytes that are no example.
    """
    records = _check_serialized(serialized)
    columns = [make_column(name, f, len(records)) for name, f in features.items()]
    for index in parse_same_layout(records, columns):
        found = spans_of(records[index], index)
        for column in columns:
            column.put_one(index, *values_of(records[index], found.get(column.name)))
    return {column.name: column.result() for column in columns}


def parse_single_example(
    serialized: bytes, features: Mapping[str, AnyFeature]
) -> dict[str, Any]:
    """Returns the features of one serialized example, as `parse_example` does.

    >>> from mirrax.data.example import BytesList, Example, Feature, Features
    >>> from mirrax.data.example import VarLenFeature
    >>> feature = {"x": Feature(bytes_list=BytesList(value=[b"a", b"b"]))}
    >>> record = Example(features=Features(feature=feature)).SerializeToString()
    >>> parse_single_example(record, {"x": VarLenFeature(bytes)})
    {'x': array([b'a', b'b'], dtype=object)}
    """
    parsed = parse_example([serialized], features)
    return {name: rows[0] for name, rows in parsed.items()}


def _check_serialized(serialized: Any) -> list[bytes]:
    if isinstance(serialized, bytes | str):
        raise TypeError(
            "A batch must be a sequence of serialized examples. Received: "
            f"{type(serialized).__name__}. Use `parse_single_example`."
        )
    records = list(serialized)
    for index, record in enumerate(records):
        if not isinstance(record, bytes):
            raise TypeError(
                "A serialized example must be bytes. Received: "
                f"{type(record).__name__} at index {index}. "
                "Use what `SerializeToString()` returned."
            )
    return records
