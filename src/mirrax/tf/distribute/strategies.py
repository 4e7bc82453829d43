"""The strategies of `tf.distribute`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import mirrax
from mirrax.errors import TracedInitialValue
from mirrax.tf.distribute.deprecated_methods import DeprecatedMethods
from mirrax.tf.distribute.replica_context import as_axis, refuse_slices
from mirrax.tf.distribute.steps import MultiStepContext
from mirrax.tf.functions.function import Function
from mirrax.tf.functions.python_functions import inside_function
from mirrax.tf.tensors.indexed_slices import (
    IndexedSlices,
    is_slices,
    map_slices,
    split_slices,
)
from mirrax.tf.tensors.tensor import tensor


class _StrategyType(type):
    """All Mirrax strategies are instances, except those of the version 1 API."""

    def __instancecheck__(cls, value: object) -> bool:
        if cls is not Strategy:
            return super().__instancecheck__(value)
        return isinstance(value, mirrax.Strategy) and not isinstance(value, StrategyV1)

    def __subclasscheck__(cls, kind: type) -> bool:
        if cls is not Strategy:
            return super().__subclasscheck__(kind)
        return issubclass(kind, mirrax.Strategy) and not issubclass(kind, StrategyV1)


class Strategy(metaclass=_StrategyType):
    """`tf.distribute.Strategy`, for `isinstance`; subclass one of its kinds."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "A strategy is built from the parts of `mirrax`, not from an `extended` of "
            f"TensorFlow. Received: {type(self).__name__}(...). Derive it from "
            "`tf.distribute.MirroredStrategy` or another of them; for other reductions "
            "pass it `cross_device_ops`, a subclass of `tf.distribute.CrossDeviceOps`."
        )


class _ExtendedType(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, mirrax.StrategyExtended)


class StrategyExtended(metaclass=_ExtendedType):
    """`tf.distribute.StrategyExtended`, for `isinstance`."""

    __init__ = Strategy.__init__


class StrategyV1:
    """`tf.compat.v1.distribute.Strategy`, for `isinstance`."""


class StrategyExtendedV1:
    """`tf.compat.v1.distribute.StrategyExtended`: more methods of `extended`."""

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
        reduce = functools.partial(self._strategy.reduce, axis=None)
        context = MultiStepContext(reduce, initial_loop_values)
        for _ in range(iterations):
            fn(context, iterator.get_next())
        return context


@functools.cache
def _like_tensorflow(kind: Any) -> Any:
    """Returns a kind of `extended` that reduces `IndexedSlices` as dense tensors."""

    class Extended(StrategyExtendedV1, kind):  # type: ignore[misc]
        def batch_reduce_to(
            self, reduce_op: Any, value_destination_pairs: Any, options: Any = None
        ) -> Any:
            pairs = [(_dense(self._strategy, v), d) for v, d in value_destination_pairs]
            return super().batch_reduce_to(reduce_op, pairs, options)

    return Extended


def _dense(strategy: Any, value: Any) -> Any:
    """Returns a value with dense tensors in place of slices; rows must not be added."""
    return map_slices(lambda s: strategy.run(IndexedSlices.to_dense, (s,)), value)


class RunsLikeTensorFlow(DeprecatedMethods):
    """Returns every result of `run` on several replicas as a `PerReplica`."""

    @property
    def extended_type(self) -> Any:
        return _like_tensorflow(super().extended_type)  # type: ignore[misc]

    def run(
        self,
        fn: Callable[..., Any],
        args: Any = (),
        kwargs: Any = None,
        options: Any = None,
    ) -> Any:
        try:
            result = super().run(fn, args, kwargs, options)  # type: ignore[misc]
        except TracedInitialValue as error:
            if not isinstance(fn, Function) or inside_function():
                raise
            result = super().run(fn.creating(args, error), args, kwargs, options)  # type: ignore[misc]
        strategy: Any = self
        if len(strategy.topology.local_devices) == 1:
            # A worker with one replica gets plain results.
            return result
        return strategy.per_replica(result)

    def reduce(self: Any, reduce_op: Any, value: Any, axis: Any) -> Any:
        if value is None and self.num_replicas_in_sync > 1:
            raise ValueError(
                "There must be a value to reduce. Received: None. Return the value "
                "from the function that `run` calls."
            )
        if axis is not None and isinstance(value, list | tuple):
            # TensorFlow makes one tensor of a list, whose first axis is the list's.
            value = self.run(tensor, (value,))
        return super().reduce(reduce_op, _dense(self, value), axis)  # type: ignore[misc]

    def experimental_local_results(self, value: Any) -> Any:
        if is_slices(value):
            return split_slices(value)
        return super().experimental_local_results(value)  # type: ignore[misc]

    def gather(self, value: Any, axis: Any) -> Any:
        refuse_slices("gather", value)
        return super().gather(value, as_axis(axis))  # type: ignore[misc]

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        if not isinstance(dataset, mirrax.data.Dataset):
            raise AttributeError(
                "Only a `tf.data.Dataset` can be distributed. Received: "
                f"{type(dataset).__name__}. Use `tf.data.Dataset.from_tensor_slices`, "
                "or a strategy of `mirrax`, which also takes other data."
            )
        return super().experimental_distribute_dataset(dataset, options)  # type: ignore[misc]


class MirroredStrategy(RunsLikeTensorFlow, mirrax.MirroredStrategy):
    """`tf.distribute.MirroredStrategy`."""


class MultiWorkerMirroredStrategy(
    RunsLikeTensorFlow, mirrax.MultiWorkerMirroredStrategy
):
    """`tf.distribute.MultiWorkerMirroredStrategy`."""

    isolates_session_state = False


class TakesCommunication:
    """The parameters of the experimental multi-worker strategies."""

    def __init__(
        self,
        communication: Any = mirrax.CollectiveCommunication.AUTO,
        cluster_resolver: Any = None,
    ) -> None:
        options = mirrax.CommunicationOptions(implementation=communication)
        super().__init__(cluster_resolver, options)  # type: ignore[call-arg]


class _OlderNameType(type(mirrax.MultiWorkerMirroredStrategy)):  # type: ignore[misc]
    """Strategies created under the newer name are instances, too."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, MultiWorkerMirroredStrategy)


class ExperimentalMultiWorkerMirroredStrategy(
    TakesCommunication, MultiWorkerMirroredStrategy, metaclass=_OlderNameType
):
    """`tf.distribute.experimental.MultiWorkerMirroredStrategy`."""


class OneDeviceStrategy(RunsLikeTensorFlow, mirrax.OneDeviceStrategy):
    """`tf.distribute.OneDeviceStrategy`."""

    isolates_session_state = False


class CentralStorageStrategy(RunsLikeTensorFlow, mirrax.CentralStorageStrategy):
    """`tf.distribute.experimental.CentralStorageStrategy`."""

    isolates_session_state = False


class TPUStrategy(MirroredStrategy):
    """`tf.distribute.TPUStrategy`: the mirrored strategy on all TPU devices.

    Args:
        tpu_cluster_resolver: Stored as `cluster_resolver`; JAX finds the TPUs itself.
        experimental_device_assignment: The indices of the TPU devices to use.
    """

    def __init__(
        self,
        tpu_cluster_resolver: Any = None,
        experimental_device_assignment: Sequence[int] | None = None,
        experimental_spmd_xla_partitioning: bool = False,
    ) -> None:
        if experimental_spmd_xla_partitioning:
            raise NotImplementedError(
                "Mirrax supports data parallelism only: each replica has the whole "
                "model. Received: experimental_spmd_xla_partitioning=True. Use "
                "`jax.sharding` for models that are split between devices."
            )
        super().__init__(_tpu_names(experimental_device_assignment))
        self._tpu_resolver = tpu_cluster_resolver

    @property
    def cluster_resolver(self) -> Any:
        return self._tpu_resolver


def _tpu_names(assignment: Sequence[int] | None) -> list[str]:
    found = [device.name for device in mirrax.config.list_logical_devices("TPU")]
    if not found:
        kinds = sorted({d.device_type for d in mirrax.config.list_logical_devices()})
        raise RuntimeError(
            "A TPUStrategy needs TPU devices. Received: a machine with devices of "
            f"type {', '.join(kinds)}. Install `jax[tpu]` on a TPU host, or use "
            "MirroredStrategy."
        )
    if assignment is None:
        return found
    indices = [int(index) for index in assignment]
    wrong = [index for index in indices if not 0 <= index < len(found)]
    if wrong:
        raise ValueError(
            "`experimental_device_assignment` must contain indices of TPU devices, "
            f"from 0 to {len(found) - 1}. Received: {wrong} in {indices}."
        )
    return [found[index] for index in indices]
