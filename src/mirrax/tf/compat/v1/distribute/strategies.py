"""The strategies of the version 1 API."""

from __future__ import annotations

from typing import Any

import mirrax
from mirrax.tf.distribute.strategies import (
    CentralStorageStrategy as CentralStorageStrategyV2,
)
from mirrax.tf.distribute.strategies import (
    RunsLikeTensorFlow,
    StrategyExtendedV1,
    StrategyV1,
    TakesCommunication,
)
from mirrax.tf.distribute.strategies import TPUStrategy as TPUStrategyV2

Strategy = StrategyV1
StrategyExtended = StrategyExtendedV1


class V1Methods(RunsLikeTensorFlow, StrategyV1):
    """The methods that differ in the version 1 API."""

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
