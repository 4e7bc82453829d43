"""Adapter of TensorFlow datasets."""

from __future__ import annotations

import sys
from typing import Any

from mirrax.data.adapters.foreign import ForeignSource, IteratorStream
from mirrax.data.plan.node import Node

_NAME = "tf.data.Dataset"


def adapt(value: Any) -> Node | None:
    """Returns the elements of a `tf.data.Dataset`."""
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is None or not isinstance(value, tensorflow.data.Dataset):
        return None
    # TensorFlow uses the same numbers for infinite and unknown.
    count = int(value.cardinality())
    return ForeignSource(
        _NAME, lambda: IteratorStream(value.as_numpy_iterator, _NAME), count
    )
