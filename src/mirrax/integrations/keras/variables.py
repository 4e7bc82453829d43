"""Keras variables as Mirrax variables: how replicas hold and aggregate them.

A proxy is what runs, traces and gradients use; the array stays in the Keras variable.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from typing_extensions import override

from mirrax._jax.arrays import is_stored
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.context import stack
from mirrax.devices.topology import AXIS, Topology
from mirrax.integrations.keras import hooks, internals
from mirrax.options import VariableAggregation, VariableSynchronization
from mirrax.strategy.sharding import choose_layout
from mirrax.values.layouts import replicate
from mirrax.variables import aliasing
from mirrax.variables.array_storage import Slot
from mirrax.variables.mirrored_variable import MirroredVariable
from mirrax.variables.sharded_variable import ShardedVariable
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Change, Variable, register_as_pytree

_AGGREGATIONS = {
    "none": VariableAggregation.NONE,
    "sum": VariableAggregation.SUM,
    "mean": VariableAggregation.MEAN,
    "only_first_replica": VariableAggregation.ONLY_FIRST_REPLICA,
}


class KerasProxy(Variable):
    """The base class of proxies."""

    def __init__(self, original: Any, strategy: Any = None) -> None:
        # Not `super().__init__`: the array is there already.
        self.original = original
        self.owner = strategy
        if strategy is not None:
            self.collective = strategy.collective
        self._name = original.path
        self._aggregation = _aggregation_of(original)
        self._shape = tuple(original.shape)
        self._dtype = jnp.dtype(internals.dtype_of(original))
        self.is_aliased = True

    @property
    @override
    def shared_name(self) -> str:
        return internals.role_of(self.original)

    @property
    @override
    def trainable(self) -> bool:
        return bool(self.original.trainable)

    def whole(self) -> jax.Array:
        """Returns the array that Keras sees outside replicas and traces."""
        return self.held()

    def held(self) -> jax.Array:
        """Returns the array that Keras passes to its steps."""
        aliasing.mark_aliased(self)
        array = internals.array_of(self.original)
        if is_stored(array):
            aliasing.require_alive(self, array)
        return array

    def put(self, array: Any) -> None:
        """Sets the array, which the caller may still hold."""
        internals.set_array(self.original, array)
        aliasing.mark_aliased(self)

    @override
    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.original = memo[id(self.original)]
        other.is_aliased = True
        return other


class PlainProxy(KerasProxy):
    """A proxy whose array is stored in the Keras variable."""

    _synchronization = VariableSynchronization.ON_WRITE

    @property
    @override
    def stored(self) -> jax.Array:
        return internals.array_of(self.original)

    @stored.setter
    def stored(self, array: jax.Array) -> None:
        internals.set_array(self.original, array)

    @override
    def slot(self) -> Slot:
        return internals.place_of(self.original)


class MirroredProxy(PlainProxy, MirroredVariable):
    """The proxy of a Keras variable that is replicated."""

    @override
    def put(self, array: Any) -> None:
        super().put(to_replicated(array, self.topology))


class ShardedProxy(PlainProxy, ShardedVariable):
    """The proxy of a Keras variable of which each replica stores a part."""

    @override
    def whole(self) -> jax.Array:
        array = self.held()
        if self.topology.is_local or array is None:
            return array
        frame = stack.frame()
        if isinstance(frame, hooks.ChiefOnly):
            frame.ask("read", self.original)
        return self._replicated()

    @override
    def put(self, array: Any) -> None:
        if ShardLayout.of_array(array, self.topology) != self.layout:
            _refuse_tracer(array)
            array = self._placed(array)
        super().put(array)


class SyncOnReadProxy(KerasProxy, SyncOnReadVariable):
    """The proxy of a Keras variable that each replica changes on its own.

    Between programs it has either one array, stored in the Keras variable, or the
    joined copies of all replicas.
    """

    _synchronization = VariableSynchronization.ON_READ

    _joined: jax.Array | None = None

    @property
    @override
    def stored(self) -> jax.Array:
        """The copies of all replicas, joined."""
        if self._joined is None:
            # Also inside a trace: the copies outlive it.
            with jax.ensure_compile_time_eval():
                self.stored = self._copies_of(internals.array_of(self.original))
        assert self._joined is not None
        return self._joined

    @stored.setter
    def stored(self, array: jax.Array) -> None:
        self._joined = array
        internals.set_array(self.original, None)

    @override
    def slot(self) -> None:
        return None

    @override
    def held(self) -> jax.Array:
        if self._joined is not None:
            self.put(self._combine(self.copies()))
        return super().held()

    @override
    def put(self, array: Any) -> None:
        self._joined = None
        super().put(to_replicated(array, self.topology))

    def _copies_of(self, whole: jax.Array) -> jax.Array:
        """Returns joined copies, one on each device, that aggregate to `whole`."""
        first = np.atleast_1d(np.asarray(whole))
        rest = np.zeros_like(first) if self._is_sum else first
        rows = len(first)

        def copy_of(index: Any) -> Any:
            is_first = not index[0].start
            return first if is_first else rest

        shape = (rows * self.topology.num_replicas, *first.shape[1:])
        return jax.make_array_from_callback(shape, self.topology.split, copy_of)

    @property
    def _is_sum(self) -> bool:
        return self.aggregation is VariableAggregation.SUM

    @override
    def _write_all(self, change: Change, given: Any) -> Any:
        if not self._is_sum:
            return super()._write_all(change, given)
        overlay = stack.overlay()
        new = change(self.whole() if overlay is None else self.value, given)
        if overlay is None:
            self.put(new)
        elif overlay.inside_replica:
            is_first = lax.axis_index(AXIS) == 0
            overlay.write(self, jnp.where(is_first, new, jnp.zeros_like(new)))
        else:
            rest = [jnp.zeros_like(new)] * (self.topology.num_replicas - 1)
            overlay.write(self, jnp.concatenate([*map(jnp.atleast_1d, (new, *rest))]))
        return new


def make_proxy(variable: Any, strategy: Any) -> KerasProxy:
    """Returns the proxy of a Keras variable that belongs to `strategy`."""
    topology = strategy.topology
    is_on_read = variable.synchronization == "on_read"
    if is_on_read and not topology.is_single:
        return SyncOnReadProxy(variable, strategy)
    # Keras reads the array itself, which therefore has no padding.
    array = internals.array_of(variable)
    is_seed = array.dtype == jnp.uint32
    layout = choose_layout(array, topology, None if is_seed else strategy.shard_bytes)
    kind = MirroredProxy if layout is None else ShardedProxy
    return kind(variable, strategy)


def to_replicated(array: Any, topology: Topology) -> jax.Array:
    """Returns `array` replicated on all devices."""
    _refuse_tracer(array)
    if isinstance(array, jax.Array) and array.sharding == topology.replicated:
        return array
    if not topology.is_local:
        return replicate(array, topology)
    return jax.device_put(array, topology.replicated)


def _refuse_tracer(array: Any) -> None:
    if isinstance(array, jax.core.Tracer):
        raise RuntimeError(
            "A Keras variable cannot be assigned inside a JAX transformation (jax.jit, "
            "grad, scan, cond, ...): the value would escape it. Use "
            "`@mirrax.function` in place of `jax.jit` and `mirrax.value_and_grad` in "
            "place of `jax.grad`, or Keras' stateless methods."
        )


def _aggregation_of(variable: Any) -> VariableAggregation:
    aggregation = _AGGREGATIONS[variable.aggregation]
    is_float = jnp.issubdtype(internals.dtype_of(variable), jnp.inexact)
    if aggregation is VariableAggregation.NONE and is_float and not variable.trainable:
        # Statistics of a layer, such as moving averages; Keras does not mark them.
        return VariableAggregation.MEAN
    return aggregation


for _kind in (PlainProxy, MirroredProxy, ShardedProxy, SyncOnReadProxy):
    register_as_pytree(_kind)
