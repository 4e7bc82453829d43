"""Adapter of PyTorch's DataLoader, whose elements are batches."""

from __future__ import annotations

import sys
from typing import Any

from mirrax.data.adapters.foreign import ForeignSource, IteratorStream
from mirrax.data.plan.node import UNKNOWN, Node

_NAME = "torch.utils.data.DataLoader"


def adapt(value: Any) -> Node | None:
    """Returns the batches of a `DataLoader`."""
    data: Any = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(value, data.DataLoader):
        return None
    is_stream = isinstance(value.dataset, data.IterableDataset)
    count = UNKNOWN if is_stream else len(value)
    return ForeignSource(
        _NAME, lambda: IteratorStream(lambda: iter(value), _NAME), count
    )
