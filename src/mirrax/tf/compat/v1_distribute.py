"""`tf.compat.v1.distribute`: the strategies of the version 1 API."""

from __future__ import annotations

from typing import Any

import mirrax
from mirrax.tf.distribute import RunsLikeTensorFlow, StrategyV1

Strategy = StrategyV1


class V1Methods(RunsLikeTensorFlow, StrategyV1):
    """What the version 1 API has in another form."""

    def reduce(self, reduce_op: Any, value: Any, axis: Any = None) -> Any:
        return super().reduce(reduce_op, value, axis)  # type: ignore[misc]


class MirroredStrategy(V1Methods, mirrax.MirroredStrategy):
    """`tf.compat.v1.distribute.MirroredStrategy`."""


class OneDeviceStrategy(V1Methods, mirrax.OneDeviceStrategy):
    """`tf.compat.v1.distribute.OneDeviceStrategy`."""
