"""`tf.distribute`: the strategies as TensorFlow programs know them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirrax
from mirrax import CrossDeviceOps as CrossDeviceOps
from mirrax import DistributedDataset as DistributedDataset
from mirrax import DistributedIterator as DistributedIterator
from mirrax import DistributedValues as DistributedValues
from mirrax import HierarchicalCopyAllReduce as HierarchicalCopyAllReduce
from mirrax import InputContext as InputContext
from mirrax import InputOptions as InputOptions
from mirrax import InputReplicationMode as InputReplicationMode
from mirrax import NcclAllReduce as NcclAllReduce
from mirrax import ReduceOp as ReduceOp
from mirrax import ReductionToOneDevice as ReductionToOneDevice
from mirrax import ReplicaContext as ReplicaContext
from mirrax import RunOptions as RunOptions
from mirrax import StrategyExtended as StrategyExtended
from mirrax import experimental_set_strategy as experimental_set_strategy
from mirrax import get_replica_context as get_replica_context
from mirrax import get_strategy as get_strategy
from mirrax import has_strategy as has_strategy
from mirrax import in_cross_replica_context as in_cross_replica_context


class _StrategyType(type):
    """Counts all strategies of Mirrax in, but for those of the version 1 API."""

    def __instancecheck__(cls, value: object) -> bool:
        if cls is not Strategy:
            return super().__instancecheck__(value)
        return isinstance(value, mirrax.Strategy) and not isinstance(value, StrategyV1)


class Strategy(metaclass=_StrategyType):
    """`tf.distribute.Strategy`, for `isinstance`."""


class StrategyV1:
    """`tf.compat.v1.distribute.Strategy`, for `isinstance`."""


class RunsLikeTensorFlow:
    """Gives every result of `run` on several replicas as a `PerReplica`."""

    def run(
        self,
        fn: Callable[..., Any],
        args: Any = (),
        kwargs: Any = None,
        options: Any = None,
    ) -> Any:
        result = super().run(fn, args, kwargs, options)  # type: ignore[misc]
        return self.per_replica(result)  # type: ignore[attr-defined]

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        if not isinstance(dataset, mirrax.data.Dataset):
            raise AttributeError(
                "What is distributed must be a `tf.data.Dataset`. Received: "
                f"{type(dataset).__name__}. Use `tf.data.Dataset.from_tensor_slices`, "
                "or a strategy of `mirrax`, which takes other data, too."
            )
        return super().experimental_distribute_dataset(dataset, options)  # type: ignore[misc]


class MirroredStrategy(RunsLikeTensorFlow, mirrax.MirroredStrategy):
    """`tf.distribute.MirroredStrategy`."""


class OneDeviceStrategy(RunsLikeTensorFlow, mirrax.OneDeviceStrategy):
    """`tf.distribute.OneDeviceStrategy`."""
