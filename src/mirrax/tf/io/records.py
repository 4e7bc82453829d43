"""TFRecord files and the examples in them."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

import mirrax
from mirrax.tf.tensors.host_tensors import host
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


def parse_single_example(
    serialized: Any, features: Any, example_names: Any = None, name: Any = None
) -> Any:
    parsed = mirrax.data.parse_single_example(_bytes(serialized), features)
    return jax.tree.map(host, parsed)


def parse_example(
    serialized: Any, features: Any, example_names: Any = None, name: Any = None
) -> Any:
    texts = string_tensor(serialized).tolist()
    return jax.tree.map(host, mirrax.data.parse_example(texts, features))


def _bytes(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 else value
