"""Variables whose copies differ: replicas write their own, reads combine them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from mirrax._jax.arrays import shards, uncommitted
from mirrax._jax.tape_trace import is_recording
from mirrax._jax.traces import evaluated
from mirrax.collectives import spmd, worker_exchange
from mirrax.collectives.reduce import reduce
from mirrax.context import stack
from mirrax.options import REDUCTIONS, VariableAggregation
from mirrax.values.layouts import Joined, Spmd, join_parts, replicate
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.variables import aliasing
from mirrax.variables.distributed_variable import DistributedVariable
from mirrax.variables.variable import Change, register_as_pytree


class SyncOnReadVariable(DistributedVariable):
    """A variable of which each replica writes its own copy, such as a count.

    A read outside `run` combines the copies with the variable's aggregation.
    """

    @property
    @override
    def value(self) -> jax.Array:
        overlay, frame = stack.overlay(), stack.frame()
        if overlay is None or not overlay.knows(self):
            return self.read_stored()
        held = overlay.seen(self)
        if held is not None:
            return held
        held = overlay.read(self)
        is_local = isinstance(frame, stack.Replica | stack.Update)
        has_one = is_local or overlay.is_for_export
        return held if has_one else self._combine(self.copies())

    @override
    def copies(self) -> PerReplica:
        overlay = stack.overlay()
        if overlay is None:
            return PerReplica(self._shared_copies())
        held = overlay.read(self)
        return PerReplica(Spmd(held) if overlay.inside_replica else self._layout(held))

    @override
    def shared_view(self, index: int) -> jax.Array:
        return self._shared_copies().parts[index]

    @override
    def _peek_parts(self) -> Sequence[Any]:
        return self._held().parts

    @override
    def read_stored(self) -> jax.Array:
        self.refuse_read_in_jit()
        return self._visible(self._shared_copies())

    @override
    def _peek(self) -> jax.Array:
        return self._visible(self._held())

    def _shared_copies(self) -> Joined:
        """Returns the copies, which the user may keep."""
        with aliasing.lock:
            aliasing.mark_aliased(self)
            return self._held()

    def _held(self) -> Joined:
        return self._layout(self._readable())

    def _visible(self, copies: Joined) -> jax.Array:
        index = self.local_index()
        if index is not None:
            return copies.parts[index]
        self._refuse_in_callback("a combined read")
        combined = self._combine(PerReplica(copies))
        return uncommitted(shards(combined)[0])

    @override
    def traced_aval(self, inside_replica: bool) -> Any:
        if inside_replica:
            return super().traced_aval(inside_replica)
        return jax.core.ShapedArray(self.stored.shape, self.stored.dtype)

    @override
    def _store_initial(self, array: jax.Array) -> jax.Array:
        return join_parts((array,) * len(self.topology.local_devices), self.topology)

    @override
    def _write(self, change: Change, given: Any) -> Any:
        if isinstance(given, PerReplica):
            raise ValueError(
                f"Variable '{self.name}' is assigned by each replica separately, or "
                "with one value for all. Received: a PerReplica. Pass it to "
                "`strategy.run`, and assign inside."
            )
        given = self._fitting(given)
        index, overlay = self.local_index(), stack.overlay()
        is_local = isinstance(stack.frame(), stack.Replica | stack.Update)
        if overlay is not None and (is_local or overlay.is_for_export):
            overlay.write(self, change(overlay.read(self), given))
            return overlay.read(self)
        if index is not None:
            with aliasing.lock:
                parts = list(self._held().parts)
                parts[index] = change(parts[index], given)
                self.store(join_parts(tuple(parts), self.topology))
                aliasing.mark_aliased(self)
            return parts[index]
        return self._write_all(change, given)

    def _write_all(self, change: Change, given: Any) -> Any:
        if self.aggregation is VariableAggregation.NONE:
            raise ValueError(
                f"Variable '{self.name}' is synchronized on read with aggregation "
                "NONE, so it has no value outside `run`. Received: a write in "
                "cross-replica context. Write it inside `strategy.run`, or give it an "
                "`aggregation`."
            )
        if self.aggregation is VariableAggregation.SUM:
            if change in (operator.add, operator.sub):
                raise ValueError(
                    "A SyncOnReadVariable does not support `assign_add` and "
                    "`assign_sub` in cross-replica context with aggregation SUM: it is "
                    "undefined which copy to change. Received: one of them for "
                    f"'{self.name}'. Use "
                    "`assign(variable.read_value() + delta)`, or change it inside "
                    "`strategy.run`."
                )
            given = self._share(given)
        overlay = stack.overlay()
        # An eager tape does not record assignments.
        if overlay is None or (overlay.is_eager and is_recording()):
            return self._store_all(change, given)
        if overlay.inside_replica:
            overlay.write(self, change(overlay.read(self), given))
            return self.read_value()
        old = self._layout(overlay.read(self)).parts
        new = jnp.concatenate([jnp.atleast_1d(change(part, given)) for part in old])
        overlay.write(self, new)
        return self.read_value()

    def _store_all(self, change: Change, given: Any) -> Mirrored:
        self._refuse_in_callback("an assignment")
        with evaluated():
            worker_exchange.require_equal(self.topology, self, given)
            with aliasing.lock:
                parts = tuple(change(part, given) for part in self._held().parts)
                self.store(join_parts(parts, self.topology))
        return Mirrored(replicate(self.read_value(), self.topology))

    def _share(self, total: Any) -> Any:
        """Returns the share of each copy in a sum; integers lose the remainder."""
        count = self.topology.num_replicas
        is_integer = jnp.issubdtype(self._dtype, jnp.integer)
        return total // count if is_integer else total / count

    def _layout(self, array: jax.Array) -> Joined:
        return Joined(array, is_scalar=self._shape == (), topology=self.topology)

    def _combine(self, value: PerReplica) -> jax.Array:
        # Part of the error when only some workers read.
        topic = f"read of {self.shared_name} (ON_READ: all workers read it together)"
        if self.aggregation in REDUCTIONS:
            op = REDUCTIONS[self.aggregation]
            return reduce(self.collective, op, [value], axis=None, purpose=topic)[0]
        if self.aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            if isinstance(value.layout, Spmd):
                return spmd.first(value.layout.value)
            first = value.values[0]
            return jnp.asarray(worker_exchange.from_first(self.topology, topic, first))
        raise ValueError(
            "Could not convert from a variable that is synchronized on read with "
            "VariableAggregation.NONE: its copies cannot be combined. Received: a read "
            f"of '{self.name}' in cross-replica context. "
            "Read it inside `strategy.run`, use `experimental_local_results`, or give "
            "it an `aggregation`."
        )


register_as_pytree(SyncOnReadVariable)
