"""TFRecord files and the examples in them."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

import mirrax
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.ragged_tensors import RaggedTensor, several_ragged_dimensions
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


def parse_single_example(
    serialized: Any, features: Any, example_names: Any = None, name: Any = None
) -> Any:
    parsed = mirrax.data.parse_single_example(_bytes(serialized), _by_key(features))
    return {
        name: host(parsed[_key_of(name, feature)]) for name, feature in features.items()
    }


def parse_example(
    serialized: Any, features: Any, example_names: Any = None, name: Any = None
) -> Any:
    texts = string_tensor(serialized).tolist()
    parsed = mirrax.data.parse_example(texts, _by_key(features))
    return {
        name: _batch(feature, parsed[_key_of(name, feature)])
        for name, feature in features.items()
    }


def _batch(feature: Any, rows: Any) -> Any:
    if not isinstance(feature, RaggedFeature):
        return jax.tree.map(host, rows)
    lengths = [len(row) for row in rows]
    return RaggedTensor.from_row_lengths(np.concatenate(rows), lengths)


def _by_key(features: Any) -> dict[str, Any]:
    """Returns features by their names in the examples."""
    return {_key_of(name, feature): feature for name, feature in features.items()}


def _key_of(name: str, feature: Any) -> str:
    return getattr(feature, "value_key", None) or name


def _bytes(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 else value
