"""Adapter of Grain datasets, which have positions."""

from __future__ import annotations

import sys
from typing import Any

from typing_extensions import override

from mirrax.data.adapters.foreign import ForeignSource, ForeignStream, LookUpStream
from mirrax.data.plan.node import INFINITE, UNKNOWN, Node, State


def adapt(value: Any) -> Node | None:
    """Returns the elements of a `MapDataset` or an `IterDataset`."""
    grain: Any = sys.modules.get("grain")
    if grain is None:
        return None
    if isinstance(value, grain.MapDataset):
        # An infinite one has the length sys.maxsize. It may skip elements, so the
        # length is only an upper bound.
        is_endless = len(value) == sys.maxsize
        count = INFINITE if is_endless else UNKNOWN
        name = "grain.MapDataset"
        return ForeignSource(
            name, lambda: LookUpStream(value.__getitem__, len(value)), count
        )
    if isinstance(value, grain.IterDataset):
        return ForeignSource("grain.IterDataset", lambda: _GrainStream(iter(value)))
    return None


def is_batched(dataset: Any) -> bool:
    """Returns whether a dataset, or one that it is made of, has passed `batch`."""
    # The classes of transformations are not public; their names say what they do.
    return "Batch" in type(dataset).__name__ or any(map(is_batched, dataset.parents))


class _GrainStream(ForeignStream):
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
