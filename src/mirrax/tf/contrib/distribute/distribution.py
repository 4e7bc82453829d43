"""A strategy with the methods of TensorFlow 1.11."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
from typing_extensions import override

import mirrax
from mirrax.tf.data.input_iterator import InputIterator
from mirrax.tf.distribute import steps
from mirrax.tf.distribute.deprecated_methods import require_scope

_REDUCTIONS = {
    mirrax.VariableAggregation.SUM: mirrax.ReduceOp.SUM,
    mirrax.VariableAggregation.MEAN: mirrax.ReduceOp.MEAN,
}
_known: weakref.WeakValueDictionary[int, DistributionStrategy] = (
    weakref.WeakValueDictionary()
)


class PerDeviceDataset:
    """A dataset whose elements go to the towers in turn."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __iter__(self) -> Any:
        return iter(self._dataset)

    def make_one_shot_iterator(self) -> InputIterator:
        return InputIterator(self._dataset)

    make_initializable_iterator = make_one_shot_iterator


class MapOutput:
    """The results of `map` on one device."""

    def __init__(self, results: list[Any]) -> None:
        self._results = results

    def get(self) -> list[Any]:
        return self._results


class MultiStepContext(steps.MultiStepContext):
    """Collects the outputs of `run_steps_on_dataset`."""

    @override
    def set_last_step_output(
        self, name: str, output: Any, aggregation: Any = mirrax.VariableAggregation.NONE
    ) -> None:
        """Stores `output`, reduced if `aggregation` is given."""
        is_kept = aggregation is mirrax.VariableAggregation.NONE
        super().set_last_step_output(name, output, None if is_kept else aggregation)


def _of_extended(name: str) -> Any:
    """Returns a property or a method of `strategy.extended`."""
    return property(lambda self: getattr(self._strategy.extended, name))


class DistributionStrategy:
    """A Mirrax strategy with the methods of TensorFlow 1.11.

    Args:
        strategy: The Mirrax strategy; by default it is created on first use, so that
            `configure` can run before JAX starts.
    """

    def __init__(self, strategy: mirrax.Strategy | None = None) -> None:
        self._made: mirrax.Strategy | None = None
        if strategy is not None:
            self._use(strategy)

    @property
    def _strategy(self) -> mirrax.Strategy:
        return self._made or self._use(self._make())

    @property
    def _is_made(self) -> bool:
        return self._made is not None

    def _make(self) -> mirrax.Strategy:
        return mirrax.get_strategy()

    def _use(self, strategy: mirrax.Strategy) -> mirrax.Strategy:
        self._made = strategy
        _known[id(strategy)] = self
        return strategy

    @staticmethod
    def of(strategy: mirrax.Strategy) -> DistributionStrategy:
        """Returns the wrapper of `strategy`, or a new one."""
        return _known.get(id(strategy)) or DistributionStrategy(strategy)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {list(self.worker_devices)}>"

    # Towers and devices.

    @property
    def num_towers(self) -> int:
        return self._strategy.num_replicas_in_sync

    @property
    def is_single_tower(self) -> bool:
        return self.num_towers == 1

    @property
    def worker_devices(self) -> list[str]:
        return list(self._strategy.extended.worker_devices)

    @property
    def parameter_devices(self) -> list[str]:
        return list(self._strategy.extended.parameter_devices)

    @property
    def worker_device_index(self) -> Any:
        """The device index of each tower, as an argument for `call_for_each_tower`."""
        if self.is_single_tower:
            return 0
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: context.replica_id_in_sync_group
        )

    between_graph = _of_extended("experimental_between_graph")
    should_init = _of_extended("experimental_should_init")
    should_checkpoint = _of_extended("should_checkpoint")
    should_save_summary = _of_extended("should_save_summary")

    # Start and end.

    def initialize(self) -> None:
        """Does nothing: JAX starts by itself."""

    def finalize(self) -> None:
        """Does nothing: there is nothing to shut down."""

    @contextlib.contextmanager
    def scope(self) -> Iterator[DistributionStrategy]:
        with self._strategy.scope():
            yield self

    # Running.

    def call_for_each_tower(
        self, fn: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Runs `fn` once per tower; `run_concurrently` is ignored."""
        kwargs.pop("run_concurrently", None)
        result = self._strategy.run(fn, args, kwargs)
        return self._strategy.per_replica(result)

    def run_steps_on_dataset(
        self,
        fn: Callable[..., Any],
        iterator: Any,
        iterations: int = 1,
        initial_loop_values: Any = None,
    ) -> MultiStepContext:
        """Calls `fn(context, *inputs)` `iterations` times, in cross-tower context."""
        context = MultiStepContext(self._reduced_to_host, initial_loop_values)
        with self._strategy.scope():
            for _ in range(iterations):
                inputs = _next_of(iterator)
                fn(context, *(inputs if isinstance(inputs, tuple) else (inputs,)))
        return context

    def map(
        self, map_over: Iterable[Any], fn: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Runs `fn(item, *args, **kwargs)` for each item, round-robin over devices."""
        devices = self._strategy.topology.local_devices
        results: list[list[Any]] = [[] for _ in devices]
        for number, item in enumerate(map_over):
            index = number % len(devices)
            with jax.default_device(devices[index]):
                results[index].append(fn(item, *args, **kwargs))
        return mirrax.PerReplica([MapOutput(found) for found in results])

    def distribute_dataset(self, dataset_fn: Callable[[], Any]) -> PerDeviceDataset:
        """Returns the dataset of `dataset_fn()`, with one element per tower."""
        return PerDeviceDataset(
            self._strategy.distribute_datasets_from_function(lambda _: dataset_fn())
        )

    # Combining.

    def reduce(self, aggregation: Any, value: Any, destinations: Any) -> Any:
        return self.batch_reduce(aggregation, [(value, destinations)])[0]

    def batch_reduce(
        self, aggregation: Any, value_destination_pairs: Sequence[tuple[Any, Any]]
    ) -> list[Any]:
        extended = self._strategy.extended
        with self._strategy.scope():
            if aggregation is mirrax.VariableAggregation.ONLY_FIRST_REPLICA:
                return [
                    extended.broadcast_to(self.unwrap(value)[0], destinations)
                    for value, destinations in value_destination_pairs
                ]
            if aggregation not in _REDUCTIONS:
                raise ValueError(
                    "`aggregation` must be VariableAggregation.SUM, MEAN or "
                    f"ONLY_FIRST_TOWER. Received: aggregation={aggregation!r}."
                )
            op = _REDUCTIONS[aggregation]
            return extended.batch_reduce_to(op, value_destination_pairs)

    def _reduced_to_host(self, aggregation: Any, value: Any) -> Any:
        return self.unwrap(self.reduce(aggregation, value, "CPU:0"))[0]

    def broadcast(self, tensor: Any, destinations: Any = None) -> Any:
        with self._strategy.scope():
            return self._strategy.extended.broadcast_to(
                tensor, self.worker_devices if destinations is None else destinations
            )

    def unwrap(self, value: Any) -> list[Any]:
        return list(self._strategy.experimental_local_results(value))

    def group(self, value: Any, name: str | None = None) -> None:
        """Does nothing: `value` has been computed already."""

    # Variables.

    def update(
        self, var: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        _require_mirrored("update", (args, kwargs))
        return self._strategy.extended.update(var, fn, args, kwargs)

    def update_non_slot(
        self, colocate_with: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        _require_mirrored("update_non_slot", (args, kwargs))
        extended = self._strategy.extended
        return extended.update_non_slot(colocate_with, fn, args, kwargs)

    def non_slot_devices(self, var_list: Sequence[Any]) -> list[str]:
        return list(self._strategy.extended.non_slot_devices(var_list))

    def colocate_vars_with(
        self, colocate_with_variable: Any
    ) -> contextlib.AbstractContextManager[None]:
        require_scope(self._strategy)
        return self._strategy.extended.colocate_vars_with(colocate_with_variable)

    def read_var(self, tower_local_var: Any) -> Any:
        with self._strategy.scope():
            return self._strategy.extended.read_var(tower_local_var)

    value_container = _of_extended("value_container")

    def configure(
        self,
        session_config: Any = None,
        cluster_spec: Any = None,
        task_type: str | None = None,
        task_id: int | None = None,
    ) -> None:
        """Applies a configuration; a cluster is refused."""
        if session_config is not None:
            session_config.apply()
        if cluster_spec:
            raise ValueError(
                f"{type(self).__name__} runs on one machine. Received: "
                f"cluster_spec={cluster_spec!r}. Use MirroredStrategy."
            )


def _next_of(iterator: Any) -> Any:
    try:
        return next(iterator)
    except StopIteration:
        raise mirrax.errors.OutOfRangeError(
            "The iterator has no more elements. Use fewer `iterations`, or "
            "`repeat` the dataset."
        ) from None


def _require_mirrored(method: str, arguments: Any) -> None:
    is_ours = lambda x: isinstance(x, mirrax.DistributedValues)  # noqa: E731
    for leaf in jax.tree.leaves(arguments, is_leaf=is_ours):
        if isinstance(leaf, mirrax.PerReplica):
            raise TypeError(
                f"The arguments of `{method}` must be the same on all devices. "
                f"Received: a value that differs between towers, {leaf!r}. Combine it "
                "with `reduce` first."
            )
