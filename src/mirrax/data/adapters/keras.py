"""Adapter of Keras' PyDataset, whose elements are batches."""

from __future__ import annotations

import sys
from typing import Any

from typing_extensions import override

from mirrax.data.adapters.foreign import ForeignSource, LookUpStream
from mirrax.data.plan.node import INFINITE, Node


def adapt(value: Any) -> Node | None:
    """Returns the batches of a `PyDataset`."""
    keras: Any = sys.modules.get("keras")
    if keras is None or not isinstance(value, keras.utils.PyDataset):
        return None
    count = value.num_batches
    cardinality = INFINITE if count is None else count
    return ForeignSource("keras.utils.PyDataset", lambda: _Batches(value), cardinality)


class _Batches(LookUpStream):
    """The batches of one epoch, with Keras' epoch callbacks."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset.__getitem__, dataset.num_batches)
        self._dataset = dataset
        self._has_begun = False

    @override
    def next(self) -> Any:
        if not self._has_begun:
            self._has_begun = True
            self._dataset.on_epoch_begin()
        try:
            return super().next()
        except StopIteration:
            self._dataset.on_epoch_end()
            raise
