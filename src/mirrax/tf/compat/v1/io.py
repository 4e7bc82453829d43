"""`tf.compat.v1.io` and `python_io`: also TFRecord files without datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mirrax.tf.data import TFRecordDataset
from mirrax.tf.io import *  # noqa: F403
from mirrax.tf.io import TFRecordOptions
from mirrax.tf.namespaces.missing_names import names_of

__getattr__ = names_of("tf.io")


class TFRecordCompressionType:
    """How a TFRecord file is compressed, for `TFRecordOptions`."""

    NONE = ""
    ZLIB = "ZLIB"
    GZIP = "GZIP"


def tf_record_iterator(
    path: Any, options: TFRecordOptions | None = None
) -> Iterator[Any]:
    """Returns the records of a file, as bytes."""
    kind = None if options is None else options.compression_type
    return TFRecordDataset(path, kind).as_numpy_iterator()
