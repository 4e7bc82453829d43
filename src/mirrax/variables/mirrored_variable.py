"""Variables with one value, of which each replica has a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.collectives import worker_exchange
from mirrax.context import stack
from mirrax.values.layouts import Replicated, Spmd, replicate
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.variables import aliasing, derivative_writes
from mirrax.variables.aggregation import aggregate, require_equal
from mirrax.variables.distributed_variable import DistributedVariable
from mirrax.variables.out_of_memory import SHARD_STATE, advise
from mirrax.variables.variable import Change, register_as_pytree, replace


class MirroredVariable(DistributedVariable):
    """A variable with an equal copy on every replica, kept equal on every write."""

    is_written_together = True

    @override
    def copies(self) -> PerReplica:
        overlay = stack.overlay()
        if overlay is not None and overlay.inside_replica:
            return PerReplica(Spmd(overlay.read(self)))
        array = self._replicated() if overlay is None else overlay.read(self)
        return PerReplica(Replicated(array, self.topology))

    def _replicated(self) -> jax.Array:
        """Returns the value as an array with a copy on every device."""
        with aliasing.lock:
            aliasing.mark_aliased(self)
            return self._readable()

    @override
    def part(self, index: int) -> jax.Array:
        return self.shared_view(index)

    @override
    def _peek_parts(self) -> Sequence[Any]:
        count = len(self.topology.local_devices)
        return [self._shard(index) for index in range(count)]

    @override
    def read_stored(self) -> jax.Array:
        self.refuse_read_in_jit()
        pending = self._pending()
        return self.shared_view(self._own_index()) if pending is None else pending

    @override
    def _peek(self) -> jax.Array:
        pending = self._pending()
        return self._shard(self._own_index()) if pending is None else pending

    def _own_index(self) -> int:
        index = self.local_index() or 0
        return index if index < len(self.topology.local_devices) else 0

    def _pending(self) -> jax.Array | None:
        """Returns the value that `extended.update` has written to this copy, if any."""
        frame = stack.frame()
        if not isinstance(frame, stack.Update):
            return None
        return frame.pending.get(self, {}).get(frame.index)

    @override
    def _store_initial(self, array: jax.Array) -> jax.Array:
        return self._placed(array)

    def _placed(self, value: Any) -> jax.Array:
        """Returns a whole value as the array to store."""
        try:
            return replicate(value, self.topology)
        except jax.errors.JaxRuntimeError as error:
            sharding = self.topology.replicated
            copies = jax.ShapeDtypeStruct(self._shape, self._dtype, sharding=sharding)
            advise(error, [(repr(self.name), copies)], SHARD_STATE)
            raise

    @override
    def _write(self, change: Change, given: Any) -> Any:
        match stack.frame():
            case stack.Replica(strategy=strategy):
                self._require_strategy(strategy)
                fitting = self._fitting(given)
                return derivative_writes.write_in_replica(self, change, fitting)
            case stack.Update(index=index, pending=pending) if stack.overlay() is None:
                new = change(self.read_stored(), self._fitting(given))
                pending.setdefault(self, {})[index] = new
                return new
            case _:
                if isinstance(given, PerReplica):
                    raise ValueError(
                        f"Variable '{self.name}' is mirrored, so all copies are "
                        "assigned one value. Received: a PerReplica. Reduce it first "
                        "(`strategy.reduce`), or assign inside `strategy.run` with an "
                        "`aggregation`."
                    )
                given = self._fitting(given)
                if stack.overlay() is not None:
                    return self._write_all(change, given)
                worker_exchange.require_equal(self.topology, self, given)
                written = self._write_all(change, given)
                is_distributed = isinstance(written, PerReplica)
                return Mirrored(written.layout.array if is_distributed else written)

    def commit_update(self, values: Sequence[jax.Array | None]) -> None:
        """Stores the values of `extended.update`, one per copy, all equal."""
        missing = [index for index, value in enumerate(values) if value is None]
        if missing:
            raise ValueError(
                f"Variable '{self.name}' must be updated on every replica. Received: "
                f"an update that skips replica(s) {missing}."
            )
        require_equal(self.name, values)
        worker_exchange.require_equal(self.topology, self, values[0])
        self.store(self._placed(values[0]))

    def write_merged(self, change: Change, value: Any, num_replicas: int) -> Any:
        """Writes the aggregate of the values of all replicas."""
        return self._write_all(change, aggregate(self, value, num_replicas))

    def write_equal(self, value: Any) -> None:
        """Stores a value that all replicas have, in cross-replica context."""
        self._write_all(replace, value)

    def _write_all(self, change: Change, given: Any) -> Any:
        overlay = stack.overlay()
        if overlay is not None:
            overlay.write(self, change(overlay.read(self), given))
            return overlay.read(self)
        self._refuse_in_callback("an assignment")
        if not isinstance(given, np.ndarray):
            given = replicate(given, self.topology)
        with aliasing.lock:
            new = change(self._old_for(change), given)
            self.store(self._placed(new))
            return self._written(new)

    def _written(self, new: Any) -> PerReplica:
        """Returns the copies after a write of `new`."""
        return self.copies()


register_as_pytree(MirroredVariable)
