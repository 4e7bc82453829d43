"""`Strategy`: the base class of all strategies."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np

from mirrax import trees
from mirrax.collectives.cross_device_ops import CrossDeviceOps
from mirrax.collectives.destinations import host_view
from mirrax.collectives.gather import gather
from mirrax.collectives.reduce import Axis, Collective
from mirrax.context import guards, stack
from mirrax.devices.topology import Topology
from mirrax.html_tables import html_table
from mirrax.lazy_modules import LazyModule
from mirrax.options import CommunicationOptions, ReduceOp, RunOptions, parse_reduce_op
from mirrax.run import dispatch
from mirrax.run.compiled.memory_report import MemoryReport
from mirrax.strategy.extended import StrategyExtended
from mirrax.strategy.reduce_tree import (
    as_per_replica,
    reduce_tree,
    require_not_traced,
    spread,
)
from mirrax.strategy.scope import Scope
from mirrax.strategy.sharding import parse_shard_state, shard_leaf
from mirrax.trees import Tree
from mirrax.user_frames import shorten_traceback
from mirrax.values.layouts import Parts, to_device
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import columns_of, local_results, parts_of
from mirrax.variables.variable import Variable

if TYPE_CHECKING:
    from mirrax.input import distribute, input_context
else:
    input_context = LazyModule("mirrax.input.input_context")
    distribute = LazyModule("mirrax.input.distribute")


R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class ValueContext:
    """Tells a `value_fn` for which replica it is called.

    Args:
        replica_id_in_sync_group: The index of the replica.
        num_replicas_in_sync: The number of replicas.

    >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    >>> strategy.experimental_distribute_values_from_function(
    ...     lambda context: 10 * context.replica_id_in_sync_group
    ... )
    PerReplica:{
      0: 0,
      1: 10
    }
    """

    replica_id_in_sync_group: int = 0
    num_replicas_in_sync: int = 1

    def __str__(self) -> str:
        # The text that TensorFlow prints, with two spaces.
        return (
            f"tf.distribute.ValueContext(replica id {self.replica_id_in_sync_group},  "
            f"total replicas in sync: {self.num_replicas_in_sync})"
        )


class Strategy:
    """Runs functions on replicas, and stores variables on their devices.

    Use a subclass, such as `OneDeviceStrategy` or `MirroredStrategy`.

    Args:
        topology: The devices, one for each replica.
        ops: How values of several replicas are added up.
        create: Creates the variables of the scope.
        cluster_resolver: The members of the cluster; None on one machine.
        options: Hints for collectives.
        shard_state: Whether each replica stores only a part of large variables; or
            the size in bytes from which they are large; or "updates" if replicas only
            divide their updates.
        storage: The devices that store variables; those of `topology` by default.

    >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    >>> isinstance(strategy, Strategy)
    True
    >>> replica_id = lambda: mirrax.get_replica_context().replica_id_in_sync_group
    >>> strategy.run(replica_id).values
    (0, 1)
    """

    def __init__(
        self,
        topology: Topology,
        ops: CrossDeviceOps,
        create: Callable[..., Any],
        cluster_resolver: Any = None,
        options: CommunicationOptions | None = None,
        shard_state: bool | int | str = False,
        storage: Topology | None = None,
    ) -> None:
        self._storage = storage or topology
        self._shard_bytes, update_bytes = parse_shard_state(shard_state)
        options = options or CommunicationOptions()
        self._collective = Collective(topology, ops, options, update_bytes)
        self._creator = functools.partial(create, self, self._collective)
        self._cluster_resolver = cluster_resolver
        self._frame = stack.CrossReplica(self)
        # Compiled functions by the function that `run` was given.
        self.functions = weakref.WeakKeyDictionary[Any, Any]()
        # Compiled functions with a `run` inside, and compiled steps of Keras' `fit`.
        self.outer_functions: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def topology(self) -> Topology:
        """The devices, one for each replica, with their mesh and shardings."""
        return self._collective.topology

    @property
    def collective(self) -> Collective:
        """The devices, and how values are combined over them."""
        return self._collective

    @property
    def shard_bytes(self) -> int | None:
        """From how many bytes on variables are sharded; None if they never are."""
        return self._shard_bytes

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas, over which gradients are combined."""
        return self.topology.num_replicas

    @property
    def is_chief(self) -> bool:
        """Whether this is the first worker of its job; True if it trains alone.

        For what only one worker should do, such as printing:

        >>> import mirrax
        >>> strategy = mirrax.MirroredStrategy(["CPU:0"])
        >>> if strategy.is_chief:
        ...     print("epoch 1")
        epoch 1
        """
        return self.topology.peers.is_chief

    @property
    def cluster_resolver(self) -> Any:
        """The members of the cluster; None on one machine."""
        return self._cluster_resolver

    @property
    def extended(self) -> StrategyExtended:
        """Further methods, for authors of libraries."""
        return self.extended_type(self, self._collective, self._storage)

    @property
    def extended_type(self) -> type[StrategyExtended]:
        """The class of `extended`."""
        return StrategyExtended

    def scope(self) -> contextlib.AbstractContextManager[Strategy]:
        """Makes this the current strategy, so that new variables belong to it.

        >>> import mirrax
        >>> strategy = mirrax.MirroredStrategy(["CPU:0"])
        >>> with strategy.scope():
        ...     v = mirrax.Variable(1.0)
        >>> v
        MirroredVariable:{
          0: <mirrax.Variable 'Variable:0' shape=() dtype=float32, numpy=1.0>
        }
        """
        guards.require_cross_replica("`strategy.scope()`")
        guards.require_same_strategy("`strategy.scope()`", self)
        return Scope(self, self._frame, self._creator)

    def shard(self, state: Tree) -> Tree:
        """Returns a structure of arrays, such as parameters, stored in parts.

        Each replica stores a part of every large array, and a copy of the others. Give
        the result to `run`: the function sees whole arrays, and a result of the shape
        and dtype of a sharded argument is sharded in its place.

        >>> import mirrax
        >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"], shard_state=1)
        >>> weights = strategy.shard({"w": np.ones((4, 2)), "b": np.ones(3)})
        >>> [part.data.shape for part in weights["w"].addressable_shards]
        [(2, 2), (2, 2)]
        """
        guards.require_cross_replica("`strategy.shard`")
        place = functools.partial(
            shard_leaf, topology=self.topology, min_bytes=self._shard_bytes
        )
        return trees.map_leaves(place, state)

    def run(
        self,
        fn: Callable[..., R],
        args: tuple[Any, ...] | list[Any] = (),
        kwargs: dict[str, Any] | None = None,
        options: RunOptions | None = None,
    ) -> R:
        """Calls `fn` on each replica; returns the merged results.

        Each replica gets its part of distributed arguments, and all others unchanged.
        Results that differ between replicas become `PerReplica`. If `fn` is a
        `mirrax.function`, all replicas run as one compiled program, and equal results
        become one replicated array. One replica returns results unwrapped.

        >>> import mirrax
        >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
        >>> rows = mirrax.PerReplica((np.ones(3), np.ones(2)))
        >>> def count(rows):
        ...     return mirrax.get_replica_context().all_reduce("SUM", len(rows))
        >>> int(strategy.run(mirrax.function(count), args=(rows,)))
        5
        """
        frame = stack.frame()
        if frame is not None and frame is not self._frame:
            guards.require_cross_replica("`strategy.run`")
            guards.require_same_strategy("`strategy.run`", self)
        try:
            result: R = dispatch.run(self, fn, args, {} if kwargs is None else kwargs)
        except Exception as error:
            shorten_traceback(error)
            raise
        return result

    def memory_report(self) -> MemoryReport:
        """Returns how much memory compiled functions need on a device.

        These are functions that `run` was given or is inside of, and the steps of
        Keras' `fit` and `evaluate`, while they exist.

        >>> import mirrax
        >>> strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"], shard_state=True)
        >>> with strategy.scope():
        ...     v = mirrax.Variable(np.ones(100_000, np.float32))
        >>> double = mirrax.function(lambda: v.assign(v * 2)[0])
        >>> strategy.run(double)
        Array(2., dtype=float32)
        >>> strategy.memory_report().programs[0].weights
        200000
        """
        return MemoryReport.of([*self.functions.values(), *self.outer_functions])

    def reduce(self, reduce_op: ReduceOp | str, value: Tree, axis: Axis) -> Tree:
        """Returns `value` combined over the replicas, as ordinary arrays.

        Args:
            reduce_op: SUM or MEAN.
            value: A structure of results of `run`.
            axis: Also combine along this dimension of each part, or these; parts may
                differ in size there, and a mean counts each element once.

        >>> import mirrax
        >>> strategy = mirrax.OneDeviceStrategy("CPU:0")
        >>> strategy.reduce("SUM", strategy.run(lambda: 2.0), axis=None)
        Array(2., dtype=float32...)
        """
        guards.require_cross_replica("`strategy.reduce`")
        guards.require_same_strategy("`strategy.reduce`", self)
        reduced = reduce_tree(self._collective, parse_reduce_op(reduce_op), value, axis)
        return trees.map_leaves(host_view, reduced)

    def gather(self, value: Tree, axis: int) -> Tree:
        """Returns the parts of `value` concatenated along `axis`, in replica order."""
        guards.require_cross_replica("`strategy.gather`")
        guards.require_same_strategy("`strategy.gather`", self)
        return trees.map_leaves(lambda leaf: self._gather(leaf, axis), value)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Returns the parts of `value` in this process; `(value,)` if it has none.

        For a structure, one structure for each replica.
        """
        leaves, structure = trees.flatten(value)
        if value is None or (leaves and leaves[0] is value):
            return local_results(value, self.topology)
        columns = [parts_of(leaf, self.topology) for leaf in leaves]
        nothing: list[tuple[Any, ...]] = [()] * len(self.topology.local_devices)
        rows = zip(*columns, strict=True) if columns else nothing
        return tuple(trees.unflatten(structure, row) for row in rows)

    def per_replica(self, value: Tree) -> Tree:
        """Returns `value` with mirrored values as `PerReplica`."""
        return trees.map_leaves(lambda leaf: spread(leaf, self._collective), value)

    def experimental_distribute_values_from_function(
        self, value_fn: Callable[[ValueContext], Tree]
    ) -> Tree:
        """Returns a value with a part for each replica: `value_fn(ValueContext)`."""
        guards.require_cross_replica("`experimental_distribute_values_from_function`")
        topology = self.topology
        overlay = stack.overlay()
        if overlay is not None:
            # The value that a function returns has a part on each device.
            overlay.note_run(self)
        parts = []
        for index, device in zip(
            topology.local_replicas, topology.local_devices, strict=True
        ):
            with jax.default_device(device):
                made = value_fn(ValueContext(index, topology.num_replicas))
            parts.append(trees.map_leaves(functools.partial(_at, device), made))
        return self._wrap_parts(parts)

    def experimental_distribute_dataset(
        self, dataset: Any, options: input_context.InputOptions | None = None
    ) -> Any:
        """Returns `dataset`, of global batches, divided among the replicas.

        A last batch that is smaller is divided as well; replicas may get empty parts.

        Args:
            dataset: A `mirrax.data.Dataset`, or what `mirrax.data.as_dataset` takes:
                iterables, and the datasets of other libraries.
            options: Where values are put, and how many are prefetched.
        """
        guards.require_cross_replica("`experimental_distribute_dataset`")
        per_replica = input_context.InputReplicationMode.PER_REPLICA
        if options and options.experimental_replication_mode is per_replica:
            raise NotImplementedError(
                "A dataset of global batches is divided among replicas, so it cannot "
                "be created for each. Received: InputReplicationMode.PER_REPLICA. Use "
                "`distribute_datasets_from_function`."
            )
        return distribute.distribute(dataset, self.topology, options)

    def distribute_datasets_from_function(
        self,
        dataset_fn: Callable[[input_context.InputContext], Any],
        options: input_context.InputOptions | None = None,
    ) -> Any:
        """Returns the dataset of `dataset_fn`, with batches for one replica.

        `dataset_fn` is called once per worker, and each replica takes a batch in turn.
        """
        guards.require_cross_replica("`distribute_datasets_from_function`")
        return distribute.distribute_from_function(dataset_fn, self.topology, options)

    def __repr__(self) -> str:
        return f"<mirrax.{type(self).__name__} on {list(self.topology.names)}>"

    def _repr_html_(self) -> str:
        rows = list(enumerate(self.topology.names))
        return html_table(type(self).__name__, ("replica", "device"), rows)

    def _owns(self, variable: Variable) -> bool:
        return variable.owner is self

    def _wrap_parts(self, parts: list[Tree]) -> Tree:
        structure, columns = columns_of(parts)
        values = [PerReplica(Parts(column, self.topology)) for column in columns]
        return jax.tree.unflatten(structure, values)

    def _gather(self, leaf: Any, axis: int) -> Any:
        per_replica = as_per_replica(leaf, self._collective)
        if per_replica is None:
            if not self.topology.is_single:
                require_not_traced(leaf)
            return leaf
        return host_view(gather(self.topology, per_replica, axis))


def _at(device: jax.Device, leaf: Any) -> Any:
    if isinstance(leaf, jax.core.Tracer):
        return leaf
    is_array = isinstance(leaf, jax.Array | np.ndarray | np.generic)
    # Devices store numbers only; strings stay in host memory.
    is_text = is_array and getattr(leaf.dtype, "kind", "") in ("O", "S", "U")
    if not is_array or is_text:
        return leaf
    # A device may share the memory of a NumPy array, which the user may write again.
    return to_device(leaf.copy() if isinstance(leaf, np.ndarray) else leaf, device)
