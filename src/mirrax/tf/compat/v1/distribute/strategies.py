"""The strategies of the version 1 API."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mirrax
from mirrax.tf.distribute.steps import MultiStepContext
from mirrax.tf.distribute.strategies import (
    CentralStorageStrategy as CentralStorageStrategyV2,
)
from mirrax.tf.distribute.strategies import (
    RunsLikeTensorFlow,
    StrategyV1,
    TakesCommunication,
)
from mirrax.tf.distribute.strategies import TPUStrategy as TPUStrategyV2

Strategy = StrategyV1


class StrategyExtended:
    """The methods that `strategy.extended` has only in version 1."""

    _strategy: Any

    def experimental_make_numpy_dataset(
        self, numpy_input: Any, session: Any = None
    ) -> Any:
        return self._strategy.experimental_make_numpy_dataset(numpy_input)

    def experimental_run_steps_on_iterator(
        self,
        fn: Callable[..., Any],
        iterator: Any,
        iterations: int = 1,
        initial_loop_values: Any = None,
    ) -> MultiStepContext:
        context = MultiStepContext(self._strategy.reduce, initial_loop_values)
        for _ in range(iterations):
            fn(context, iterator.get_next())
        return context


@functools.cache
def _with_version_1(kind: type[mirrax.StrategyExtended]) -> type:
    """Returns a subclass of an `extended` class with the methods of version 1."""
    return type("StrategyExtendedV1", (StrategyExtended, kind), {})


class V1Methods(RunsLikeTensorFlow, StrategyV1):
    """The methods that differ in the version 1 API."""

    @property
    def extended(self) -> Any:
        kind: Any = type(super().extended)
        return _with_version_1(kind)(self, self.collective)  # type: ignore[attr-defined]

    def reduce(self, reduce_op: Any, value: Any, axis: Any = None) -> Any:
        return super().reduce(reduce_op, value, axis)


class MirroredStrategy(V1Methods, mirrax.MirroredStrategy):
    """`tf.compat.v1.distribute.MirroredStrategy`."""


class MultiWorkerMirroredStrategy(
    TakesCommunication, V1Methods, mirrax.MultiWorkerMirroredStrategy
):
    """`tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy`."""

    isolates_session_state = False


class OneDeviceStrategy(V1Methods, mirrax.OneDeviceStrategy):
    """`tf.compat.v1.distribute.OneDeviceStrategy`."""

    isolates_session_state = False


class CentralStorageStrategy(V1Methods, CentralStorageStrategyV2):
    """`tf.compat.v1.distribute.experimental.CentralStorageStrategy`."""


class TPUStrategy(V1Methods, TPUStrategyV2):
    """`tf.compat.v1.distribute.experimental.TPUStrategy`."""


def get_loss_reduction() -> mirrax.ReduceOp:
    """Returns how the losses of replicas are combined: summed."""
    return mirrax.ReduceOp.SUM
