"""Adapters of Grain, Keras, PyTorch and TensorFlow, if the user has imported them."""

from __future__ import annotations

import sys
from typing import Any

from typing_extensions import override

from mirrax.data.adapters.foreign import (
    ForeignSource,
    ForeignStream,
    LookUpStream,
    counted,
)
from mirrax.data.plan.node import INFINITE, UNKNOWN, Node, State


def adapt_grain(value: Any) -> Node | None:
    """Returns the elements of a `MapDataset` or an `IterDataset`."""
    grain: Any = sys.modules.get("grain")
    if grain is None:
        return None
    if isinstance(value, grain.MapDataset):
        # An infinite one has the length sys.maxsize. It may skip elements, so the
        # length is only an upper bound.
        count = len(value)
        return ForeignSource(
            "grain.MapDataset",
            lambda: LookUpStream(value.__getitem__, count),
            INFINITE if count == sys.maxsize else UNKNOWN,
        )
    if isinstance(value, grain.IterDataset):
        return ForeignSource("grain.IterDataset", lambda: _GrainStream(iter(value)))
    return None


def is_batched(dataset: Any) -> bool:
    """Returns whether a Grain dataset, or one it is made of, has passed `batch`."""
    # The classes of transformations are not public; their names say what they do.
    return "Batch" in type(dataset).__name__ or any(map(is_batched, dataset.parents))


class _GrainStream(ForeignStream):
    """Grain's elements, with its positions."""

    def __init__(self, elements: Any) -> None:
        self._elements = elements

    @override
    def next(self) -> Any:
        return next(self._elements)

    @override
    def state(self) -> State:
        return self._elements.get_state()

    @override
    def restore(self, state: State) -> None:
        self._elements.set_state(state)


def adapt_keras(value: Any) -> Node | None:
    """Returns the batches of a `PyDataset`."""
    keras: Any = sys.modules.get("keras")
    if keras is None or not isinstance(value, keras.utils.PyDataset):
        return None
    count = INFINITE if value.num_batches is None else value.num_batches
    return ForeignSource("keras.utils.PyDataset", lambda: _KerasBatches(value), count)


class _KerasBatches(LookUpStream):
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


def adapt_torch(value: Any) -> Node | None:
    """Returns the batches of a `DataLoader`."""
    data: Any = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(value, data.DataLoader):
        return None
    is_stream = isinstance(value.dataset, data.IterableDataset)
    count = UNKNOWN if is_stream else len(value)
    return counted("torch.utils.data.DataLoader", lambda: iter(value), count)


def adapt_tensorflow(value: Any) -> Node | None:
    """Returns the elements of a `tf.data.Dataset`."""
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is None or not isinstance(value, tensorflow.data.Dataset):
        return None
    # TensorFlow uses the same numbers for infinite and unknown.
    count = int(value.cardinality())
    return counted("tf.data.Dataset", value.as_numpy_iterator, count)
