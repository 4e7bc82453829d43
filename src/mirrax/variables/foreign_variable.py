"""Variables of other libraries, which programs read and write like our own.

A variable of Keras or Flax stores its array itself. A `ForeignVariable` is a proxy for
engines, overlays and gradients: it gets and sets the array in the library.

The writes of an eager replica are pending until its function has ended; then the
replicas synchronize once. They cannot do so earlier, inside code of another library.
"""

from __future__ import annotations

import abc
import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from mirrax._jax.arrays import uncommitted
from mirrax.collectives import worker_exchange
from mirrax.collectives.reduce import Collective, reduce
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.options import ReduceOp, VariableAggregation, VariableSynchronization
from mirrax.trees import IdentityKey
from mirrax.values.layouts import replicate
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.variables import aliasing
from mirrax.variables.aggregation import MergeFunction, aggregate
from mirrax.variables.mirrored_variable import MirroredVariable
from mirrax.variables.variable import Change, replace


class Outdated(Exception):  # noqa: N818 - a signal to `function`, not to the user
    """What a trace depends on has changed: a variable's shape or dtype, a library."""


class ForeignVariable(MirroredVariable):
    """A proxy of a variable of another library.

    It belongs to no strategy. Between programs its array is wherever the library or
    the user put it; a program over several devices first replicates it.
    """

    # Replicas synchronize for it once their function has ended.
    is_written_together = False

    def __init__(
        self,
        name: str,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        trainable: bool = True,
    ) -> None:
        # Not `super().__init__`: there is nothing to create.
        self._name = name
        self._trainable = trainable
        self._aggregation = aggregation
        self._synchronization = VariableSynchronization.ON_WRITE
        self._prepared: Any = None
        self._prepared_on: Topology | None = None
        self.owner = None
        self.is_aliased = False

    @abc.abstractmethod
    def get_array(self) -> jax.Array:
        """Returns the array in the library."""

    @abc.abstractmethod
    def set_array(self, array: jax.Array) -> None:
        """Stores `array` in the library."""

    def adds_changes(self) -> bool:
        """Returns whether a write here is an increment of a shared value.

        That is a sum or a count: the increments of all replicas are added.
        """
        return False

    @property
    @override
    def stored(self) -> jax.Array:
        return self.get_array()

    @stored.setter
    def stored(self, array: jax.Array) -> None:
        self._prepared = array
        self.set_array(array)

    @override
    def slot(self) -> None:
        return None

    @property
    @override
    def shape(self) -> tuple[int, ...]:
        return self.get_array().shape

    @property
    @override
    def dtype(self) -> np.dtype[Any]:
        return self.get_array().dtype

    @property
    @override
    def collective(self) -> Collective:  # type: ignore[override]
        frame = stack.frame()
        assert frame is not None
        return frame.strategy.collective

    @property
    @override
    def layout(self) -> ShardLayout | None:
        """How its array is cut now; its library may replace it at any time."""
        return ShardLayout.of_array(self.get_array())

    def prepare(
        self, topology: Topology | None, aval: Any, layout: ShardLayout | None = None
    ) -> None:
        """Puts the array on the devices of a program.

        Args:
            aval: The shape and dtype that the program was traced with.
            layout: How the array was cut then.
        """
        array = self.get_array()
        aliasing.require_alive(self, array)
        if array is self._prepared and self._prepared_on is topology:
            return
        if array.shape != aval.shape or array.dtype != aval.dtype:
            raise Outdated
        if topology is not None and self.layout != layout:
            raise Outdated
        if topology is not None and layout is None:
            if array.sharding != topology.replicated:
                # All workers start with the first worker's value.
                topic = f"place {self.shared_name}"
                array = worker_exchange.from_first(topology, topic, array)
            array = replicate(array, topology)
        self.stored = array
        self._prepared_on = topology

    def _prepare_for_reading(self) -> None:
        """Replicates the array over the devices, unless it is sharded."""
        if self.layout is None:
            self.prepare(self.collective.topology, self.get_array())

    @override
    def traced_aval(self, inside_replica: bool) -> Any:
        return jax.core.ShapedArray(self.shape, self.dtype)

    @override
    def shared_view(self, index: int) -> jax.Array:
        return uncommitted(self._shard(index))

    @override
    def read_stored(self) -> jax.Array:
        return super().read_stored() if self._is_distributed() else self.get_array()

    @override
    def _pending(self) -> jax.Array | None:
        frame = stack.frame()
        if isinstance(frame, stack.Replica) and self in frame.pending:
            return frame.pending[self].value
        return None

    @override
    def _shard(self, index: int) -> jax.Array:
        if not self._is_distributed():
            return self.get_array()
        self._prepare_for_reading()
        return super()._shard(index)

    @override
    def _own_index(self) -> int:
        frame = stack.frame()
        is_local = isinstance(frame, stack.Replica | stack.Update)
        return (frame.index or 0) if is_local else 0  # type: ignore[union-attr]

    @override
    def _require_strategy(self, strategy: Any) -> None:
        """Accepts every strategy."""

    @override
    def _fitting(self, given: Any) -> Any:
        self._shape, self._dtype = self.shape, self.dtype
        return super()._fitting(given)

    @override
    def _write(self, change: Change, given: Any) -> Any:
        frame, overlay = stack.frame(), stack.overlay()
        if overlay is not None and overlay.is_eager:
            # Inside a derivative, which returns the new value at its end.
            overlay.write(self, change(overlay.read(self), self._fitting(given)))
            return overlay.read(self)
        if not isinstance(frame, stack.Replica) or not self._is_distributed():
            return super()._write(change, given)
        if overlay is None:
            new = change(self.value, self._fitting(given))
            frame.pending[self] = _Pending(new, self.adds_changes())
            return new
        if self.adds_changes():
            old = self.value
            delta = change(old, self._fitting(given)) - old
            given = old + frame.context.all_reduce(ReduceOp.SUM, delta)
            change = replace
        return super()._write(change, given)

    def pending_write(self, pending: _Pending) -> Any:
        """Returns the value or increment that a replica contributes at its end."""
        if not pending.is_increment:
            return pending.value
        return pending.value - self.shared_view(self._own_index())

    def write_pending(self, is_increment: bool, value: Any, num_replicas: int) -> None:
        """Stores the pending writes of all replicas, in cross-replica context."""
        if not is_increment:
            self.write_all(replace, aggregate(self, value, num_replicas))
        else:
            if not isinstance(value, PerReplica):
                # One replica on each worker, or the same object from all replicas.
                value = PerReplica((value,) * len(self.topology.local_devices))
            (delta,) = reduce(self.collective, ReduceOp.SUM, [value], axis=None)
            self.write_all(operator.add, delta)

    @override
    def write_all(self, change: Change, given: Any) -> Any:
        if stack.overlay() is None and self._is_distributed():
            self._prepare_for_reading()
        elif stack.overlay() is None:
            self.stored = change(self.get_array(), given)
            return Mirrored(self.stored)
        return super().write_all(change, given)

    def _is_distributed(self) -> bool:
        frame = stack.frame()
        return frame is not None and not frame.strategy.topology.is_single


@dataclasses.dataclass(frozen=True)
class _Pending:
    value: Any
    is_increment: bool


def assign_pending(frame: stack.Replica) -> None:
    """Synchronizes the replicas to store their writes to foreign variables."""
    if not frame.pending:
        return
    are_increments = tuple(pending.is_increment for pending in frame.pending.values())
    commit = MergeFunction(
        _commit, tuple(map(IdentityKey, frame.pending)), are_increments
    )
    values = [v.pending_write(pending) for v, pending in frame.pending.items()]
    # As new arrays, so that none is taken for an object that all replicas share.
    frame.context.merge_call(commit, args=([jnp.asarray(v) for v in values],))


def _commit(
    strategy: Any, variables: Sequence[Any], values: Any, are_increments: Any
) -> None:
    count = strategy.num_replicas_in_sync
    for variable, *write in zip(variables, are_increments, values, strict=True):
        variable.write_pending(*write, count)
