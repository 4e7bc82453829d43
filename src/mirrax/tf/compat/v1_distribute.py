"""`tf.compat.v1.distribute`: the strategies of the version 1 API."""

from __future__ import annotations

from typing import Any

import mirrax
from mirrax.tf.distribute import RunsLikeTensorFlow, StrategyV1

Strategy = StrategyV1


class InputIterator:
    """Goes through a distributed dataset; `initialize` starts anew."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.initialize()

    def initialize(self) -> None:
        self._iterator = iter(self._dataset)

    def get_next(self) -> Any:
        return self._iterator.get_next()

    @property
    def element_spec(self) -> Any:
        return self._iterator.element_spec


class V1Methods(RunsLikeTensorFlow, StrategyV1):
    """What the version 1 API has in another form."""

    def reduce(self, reduce_op: Any, value: Any, axis: Any = None) -> Any:
        return super().reduce(reduce_op, value, axis)  # type: ignore[misc]

    def make_dataset_iterator(self, dataset: Any) -> InputIterator:
        distributed = self.experimental_distribute_dataset(dataset)
        return InputIterator(distributed)

    def make_input_fn_iterator(
        self,
        input_fn: Any,
        replication_mode: Any = mirrax.InputReplicationMode.PER_WORKER,
    ) -> InputIterator:
        distributed = self.distribute_datasets_from_function(input_fn)  # type: ignore[attr-defined]
        return InputIterator(distributed)

    def experimental_run(self, fn: Any, input_iterator: Any = None) -> Any:
        args = () if input_iterator is None else (input_iterator.get_next(),)
        return self.run(fn, args)


class MirroredStrategy(V1Methods, mirrax.MirroredStrategy):
    """`tf.compat.v1.distribute.MirroredStrategy`."""


class OneDeviceStrategy(V1Methods, mirrax.OneDeviceStrategy):
    """`tf.compat.v1.distribute.OneDeviceStrategy`."""
