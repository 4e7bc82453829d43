"""`strategy.extended`: methods for authors of optimizers and libraries."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from mirrax import trees
from mirrax.collectives.destinations import devices_of, put_on_destinations
from mirrax.collectives.reduce import Collective
from mirrax.collectives.worker_exchange import equal_on_all
from mirrax.context import guards, stack
from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import Topology
from mirrax.options import CommunicationOptions, ReduceOp, parse_reduce_op
from mirrax.strategy.reduce_tree import as_per_replica, reduce_tree
from mirrax.trees import IdentityKey, Tree
from mirrax.values.array_like import as_array
from mirrax.values.layouts import Replicated, Spmd, replicate
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import is_program_traced, regroup, select
from mirrax.variables import replica_writes
from mirrax.variables.distributed_variable import DistributedVariable, VariablePart
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Variable


class StrategyExtended:
    """Further cross-replica methods of a strategy: `strategy.extended`.

    >>> strategy = mirrax.MirroredStrategy(["CPU:0"])
    >>> strategy.extended.worker_devices
    ('/job:localhost/replica:0/task:0/device:CPU:0',)
    """

    def __init__(
        self, strategy: Any, collective: Collective, storage: Topology
    ) -> None:
        self._strategy = strategy
        self._collective = collective
        self._storage = storage

    experimental_require_static_shapes = False
    experimental_should_init = True

    @property
    def experimental_between_graph(self) -> bool:
        """Whether each worker runs its own program."""
        return self._strategy.cluster_resolver is not None

    @property
    def should_checkpoint(self) -> bool:
        """Whether this worker writes checkpoints and summaries for all."""
        return self._collective.topology.worker_index == 0

    should_save_summary = should_checkpoint

    @property
    def worker_devices(self) -> tuple[str, ...]:
        """The names of this worker's devices that run replicas."""
        return _local_names(self._collective.topology)

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The names of this worker's devices that store variables."""
        return _local_names(self._storage)

    def non_slot_devices(self, var_list: Sequence[Any]) -> tuple[str, ...]:
        """Returns the devices of variables that are not slots of other variables."""
        return self.parameter_devices

    def call_for_each_replica(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Tree:
        """Calls `strategy.run`."""
        return self._strategy.run(fn, tuple(args), kwargs)

    def reduce_to(
        self,
        reduce_op: ReduceOp | str,
        value: Any,
        destinations: Any,
        options: CommunicationOptions | None = None,
    ) -> Any:
        """Returns `value` combined over the replicas, on the devices of `destinations`.

        Args:
            reduce_op: SUM or MEAN.
            value: A per-replica value; others are returned where they are.
            destinations: A variable or distributed value, which stands for its
                devices; a device name; or a list of names.
            options: Hints for the collective.
        """
        return self.batch_reduce_to(reduce_op, [(value, destinations)], options)[0]

    def batch_reduce_to(
        self,
        reduce_op: ReduceOp | str,
        value_destination_pairs: Sequence[tuple[Any, Any]],
        options: CommunicationOptions | None = None,
    ) -> list[Any]:
        """Returns `reduce_to` of each pair, in one collective."""
        guards.require_cross_replica("`extended.reduce_to`")
        op = parse_reduce_op(reduce_op)
        collective = self._collective
        if options is not None:
            collective = Collective(collective.topology, collective.ops, options)
        values = [value for value, _ in value_destination_pairs]
        reduced = reduce_tree(collective, op, values, axis=None)
        results = []
        for tree, (value, destinations) in zip(
            reduced, value_destination_pairs, strict=True
        ):
            given, structure = trees.flatten(value)
            leaves = [
                leaf
                if as_per_replica(old, collective) is None
                else put_on_destinations(leaf, destinations, collective.topology)
                for old, leaf in zip(given, trees.leaves(tree), strict=True)
            ]
            results.append(trees.unflatten(structure, leaves))
        return results

    def broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        """Returns `tensor` on the devices of `destinations`."""
        guards.require_cross_replica("`extended.broadcast_to`")
        return put_on_destinations(
            as_array(tensor), destinations, self._collective.topology
        )

    def update(
        self,
        var: Variable,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        """Calls `fn(var, *args, **kwargs)` for each copy of `var`, on its device.

        All copies must stay equal. Mirrored arguments are replaced by the part on that
        device. Inside `run` all replicas must call it, and it runs once.

        Args:
            var: A variable.
            fn: Updates its first argument.
            args: Further arguments.
            kwargs: Further keyword arguments.
            group: Whether to return one merged result, mirrored if it is equal for all
                copies, instead of one for each copy.
        """
        frame = stack.frame()
        if isinstance(frame, stack.Replica):
            kwargs = kwargs or {}
            if replica_writes.are_deferred(stack.overlay()):
                # Its writes are part of this replica's derivative.
                return fn(var, *args, **kwargs)
            update = _Update(IdentityKey(var), getattr(fn, "__code__", fn), group, fn)
            return frame.context.merge_call(update, (tuple(args), kwargs))
        is_outside = is_program_traced() and not stack.overlay().inside_replica
        if isinstance(var, SyncOnReadVariable) and is_outside:
            # Its copies differ, and a trace calls `fn` once for all.
            raise NotTraceable
        topology = var.topology if isinstance(var, DistributedVariable) else None
        return self._update(topology, fn, (var, *args), kwargs, group)

    def update_non_slot(
        self,
        colocate_with: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        """Calls `fn` on each device of `colocate_with`."""
        guards.require_cross_replica("`extended.update_non_slot`")
        devices = devices_of(colocate_with, self._collective.topology)
        return self._update(Topology(devices), fn, tuple(args), kwargs, group)

    @contextlib.contextmanager
    def colocate_vars_with(self, colocate_with_variable: Any) -> Iterator[None]:
        """Creates new variables on the devices of that variable, inside the scope.

        All variables of a strategy share their devices, so this only checks that the
        strategy has created it.
        """
        guards.require_scope("`colocate_vars_with`", self._strategy)
        if not self.variable_created_in_scope(colocate_with_variable):
            name = getattr(colocate_with_variable, "name", colocate_with_variable)
            raise ValueError(
                "`colocate_vars_with` takes a variable created in the scope of this "
                f"strategy. Received: {name!r}. Create it inside `strategy.scope()`."
            )
        yield

    def variable_created_in_scope(self, v: Any) -> bool:
        """Returns whether `v` was created in the scope of this strategy."""
        return isinstance(v, Variable) and self._strategy._owns(v)

    def value_container(self, value: Any) -> Any:
        """Returns the distributed variable that has `value` as a copy, or `value`."""
        return value.container if isinstance(value, VariablePart) else value

    def read_var(self, v: Any) -> Any:
        """Returns the value of a variable, combined if its copies differ."""
        guards.require_cross_replica("`extended.read_var`")
        return v.read_value()

    def _update(
        self,
        topology: Topology | None,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        group: bool,
    ) -> Any:
        guards.require_same_strategy("`extended.update`", self._strategy)
        args, kwargs = trees.map_leaves(_update_argument, (args, kwargs or {}))
        devices = (None,) if topology is None else topology.local_devices
        if stack.overlay() is not None:
            # A trace calls `fn` once for all copies.
            devices = (None,)
        pending: dict[Any, dict[int, Any]] = {}
        results = []
        for index, device in enumerate(devices):
            frame = stack.Update(self._strategy, index, pending)
            with stack.entered(frame), _default_device(device):
                results.append(fn(*select(args, index), **select(kwargs, index)))
        for variable, values in pending.items():
            variable.commit_update([values.get(i) for i in range(len(devices))])
        results = [trees.map_leaves(_value_of, result) for result in results]
        merged = regroup(results)
        if group:
            return trees.map_leaves(lambda leaf: _mirrored(leaf, topology), merged)
        count = 1 if topology is None else len(topology.local_devices)

        def of_each_copy(leaf: Any) -> tuple[Any, ...]:
            if len(results) > 1 and isinstance(leaf, PerReplica):
                return leaf.values
            return (leaf,) * count

        return trees.map_leaves(of_each_copy, merged)


@dataclasses.dataclass(frozen=True)
class _Update:
    """The merge function of an update; replicas must make equal updates."""

    variable: IdentityKey
    definition: Any
    group: bool
    fn: Callable[..., Any] = dataclasses.field(compare=False, repr=False)

    def __call__(self, strategy: Any, args: Any, kwargs: Any) -> Any:
        variable = self.variable.value
        return strategy.extended.update(variable, self.fn, args, kwargs, self.group)


def _local_names(topology: Topology) -> tuple[str, ...]:
    return tuple(topology.names[index] for index in topology.local_replicas)


def _default_device(device: jax.Device | None) -> Any:
    return contextlib.nullcontext() if device is None else jax.default_device(device)


def _update_argument(leaf: Any) -> Any:
    """Returns an argument of an update function, unwrapped inside a trace."""
    if stack.overlay() is None or not isinstance(leaf, PerReplica):
        return leaf
    match leaf.layout:
        case Spmd(value=value):
            # If it differs between replicas, the unequal write is refused later.
            return value
        case Replicated(array=array):
            return array
        case _:
            raise ValueError(
                "All copies of a variable must get the same update, so every replica "
                "needs the same value. Received: a PerReplica. Reduce it first "
                "(`reduce_to`)."
            )


def _mirrored(leaf: Any, topology: Topology | None) -> Any:
    """Returns arrays that are equal on all devices as one mirrored value."""
    if topology is None or not topology.is_local or not isinstance(leaf, PerReplica):
        return leaf
    parts = leaf.values
    if not all(isinstance(part, jax.Array) for part in parts):
        return leaf
    (is_equal,) = equal_on_all(topology, "results of an update", [parts])
    return Mirrored(replicate(parts[0], topology)) if is_equal else leaf


def _value_of(leaf: Any) -> Any:
    return leaf.read_value() if isinstance(leaf, Variable) else leaf
