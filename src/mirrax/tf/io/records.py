"""TFRecord files and the examples in them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np

import mirrax
from mirrax.errors import InvalidArgumentError
from mirrax.tf.dtypes import as_dtype, string
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor, several_ragged_dimensions
from mirrax.tf.tensors.sparse_tensors import SparseTensor
from mirrax.tf.tensors.tensor import string_tensor


@dataclasses.dataclass(frozen=True)
class TFRecordOptions:
    """How a TFRecord file is compressed: "" (not at all), "GZIP" or "ZLIB"."""

    compression_type: str | None = None


class TFRecordWriter(mirrax.data.TFRecordWriter):
    """`tf.io.TFRecordWriter`.

    Args:
        path: The file.
        options: `TFRecordOptions`, or the name of the compression.
    """

    def __init__(self, path: Any, options: TFRecordOptions | str | None = None) -> None:
        kind = (
            options.compression_type
            if isinstance(options, TFRecordOptions)
            else options
        )
        super().__init__(path, kind or "")


@dataclasses.dataclass(frozen=True)
class RaggedFeature(mirrax.data.VarLenFeature):
    """`tf.io.RaggedFeature`: the rows of a batch are a `RaggedTensor`.

    Args:
        dtype: The dtype of the values.
        value_key: The name of the values in the example; by default the feature's.
        partitions: Must be empty: there is one ragged dimension.
        row_splits_dtype: Ignored.
        validate: Ignored.
    """

    value_key: str | None = None
    partitions: Any = ()
    row_splits_dtype: Any = None
    validate: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.partitions:
            raise several_ragged_dimensions(f"partitions={self.partitions}")


@dataclasses.dataclass(frozen=True)
class FixedLenSequenceFeature:
    """A feature with any number of values of one shape, padded in a batch.

    Args:
        shape: The shape of one value.
        dtype: float32, int64, or string.
        allow_missing: Whether an example may have none.
        default_value: What a batch is padded with; 0, or empty text, by default.
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


@dataclasses.dataclass(frozen=True)
class SparseFeature:
    """A sparse tensor of two features of the examples: its indices and its values.

    Args:
        index_key: The name of the indices; a list of names, one for each dimension.
        value_key: The name of the values.
        dtype: The dtype of the values.
        size: The size of the tensor; a list, if there are several dimensions.
        already_sorted: Ignored.
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False

    def sources(self) -> dict[str, Any]:
        """Returns what to read, by the names in the examples."""
        indices = dict.fromkeys(_as_list(self.index_key), _INDICES)
        return indices | {self.value_key: mirrax.data.VarLenFeature(self.dtype)}

    def tensor(self, parsed: Any) -> SparseTensor:
        """Returns the sparse tensor of what was read."""
        rows = parsed[self.value_key]
        numbers = np.repeat(np.arange(len(rows)), list(map(len, rows)))
        columns = [np.concatenate(parsed[key]) for key in _as_list(self.index_key)]
        indices = np.stack([numbers, *columns], axis=1)
        values = np.concatenate(rows)
        sparse = SparseTensor(indices, values, [len(rows), *_as_list(self.size)])
        # Sorts the values.
        return SparseTensor.of_dense(*jax.tree.leaves(sparse))


_INDICES = mirrax.data.VarLenFeature(np.int64)


def _as_list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def parse_single_example(
    serialized: Any, features: Any, example_names: Any = None, name: Any = None
) -> Any:
    """Returns the features of an example; a `VarLenFeature` is a sparse tensor."""
    parsed = parse_example([_bytes(serialized)], features)
    return {key: _first_row(value) for key, value in parsed.items()}


def parse_example(
    serialized: Any, features: Any, example_names: Any = None, name: Any = None
) -> Any:
    """Returns the features of examples; a `VarLenFeature` is a sparse tensor."""
    texts = string_tensor(serialized).tolist()
    parsed = mirrax.data.parse_example(texts, _by_key(features))
    return {
        name: feature.tensor(parsed)
        if isinstance(feature, SparseFeature)
        else _tensor_of(parsed[_key_of(name, feature)], feature)
        for name, feature in features.items()
    }


def _by_key(features: Any) -> dict[str, Any]:
    """Returns what to read, by the names in the examples."""
    wanted: dict[str, Any] = {}
    for name, feature in features.items():
        for key, plain in _sources(name, feature).items():
            known = wanted.setdefault(key, plain)
            if known is not plain and known != plain:
                raise ValueError(
                    "Features that read the same values must be equal. Received: "
                    f"{known} and {feature} for {key!r}. Parse one of them, and "
                    "convert what it gives."
                )
    return wanted


def _sources(name: str, feature: Any) -> dict[str, Any]:
    if isinstance(feature, SparseFeature):
        return feature.sources()
    return {_key_of(name, feature): _plain(feature)}


def _key_of(name: str, feature: Any) -> str:
    """Returns the name of a feature in the examples."""
    return getattr(feature, "value_key", None) or name


def _plain(feature: Any) -> Any:
    is_sequence = isinstance(feature, FixedLenSequenceFeature)
    return mirrax.data.VarLenFeature(feature.dtype) if is_sequence else feature


def _tensor_of(rows: Any, feature: Any) -> Any:
    if isinstance(feature, RaggedFeature):
        values = np.concatenate([*rows, np.empty(0, as_dtype(feature.dtype))])
        return RaggedTensor.from_row_lengths(values, list(map(len, rows)))
    if isinstance(feature, mirrax.data.VarLenFeature):
        none = np.empty(0, as_dtype(feature.dtype))
        return SparseTensor.of_dense(*_padded(rows, none, None))
    if not isinstance(feature, FixedLenSequenceFeature):
        return host(rows)
    if not feature.allow_missing and not all(map(len, rows)):
        raise InvalidArgumentError(
            "A `FixedLenSequenceFeature` must be in every example. Received: an "
            "example without values. Give the feature `allow_missing=True`."
        )
    size = math.prod(feature.shape)
    for row in rows:
        if len(row) % size:
            raise InvalidArgumentError(
                "The number of values of a `FixedLenSequenceFeature` must be a "
                f"multiple of the {size} of its shape. Received: {len(row)} values for "
                f"the shape {feature.shape}. Correct the shape, or the examples."
            )
    none = np.empty((0, *feature.shape), as_dtype(feature.dtype))
    shaped = [row.reshape(-1, *feature.shape) for row in rows]
    return _padded(shaped, none, feature.default_value)[0]


def _padded(rows: list[Any], none: Any, filler: Any) -> tuple[Any, Any]:
    """Returns rows filled up to the longest one, and where they have values.

    Args:
        rows: The rows.
        none: A row without values.
        filler: What they are filled up with; 0, or empty text, by default.
    """
    shape = (len(rows), max(map(len, rows), default=0))
    first = rows[0] if rows else none
    if filler is None:
        filler = b"" if first.dtype == string else 0
    elif isinstance(filler, str):
        filler = filler.encode()
    batch = np.full((*shape, *first.shape[1:]), filler, first.dtype)
    mask = np.zeros(shape, bool)
    for index, row in enumerate(rows):
        batch[index, : len(row)] = row
        mask[index, : len(row)] = True
    return host(batch), host(mask)


def _first_row(value: Any) -> Any:
    if isinstance(value, SparseTensor):
        dense, mask = jax.tree.leaves(value)
        return SparseTensor.of_dense(dense[0], mask[0])
    return value[0]


def _bytes(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 else value
