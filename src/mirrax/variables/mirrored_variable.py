"""Variables with one value, of which each replica has a copy, or stores a part.

If its array is cut (`Variable.layout`), each replica stores a part. To all code the
variable is the same. A compiled `run` computes its new value part by part where it can.
Other reads gather the parts; with several workers, all of them read together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax._jax.arrays import shards
from mirrax.collectives import worker_exchange
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.context import stack
from mirrax.values.layouts import Replicated, Spmd, replicate, to_device
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.variables import aliasing, replica_writes
from mirrax.variables.aggregation import require_equal
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
        if self.layout is not None:
            return replicate(self._gathered(self.layout), self.topology)
        with aliasing.lock:
            aliasing.mark_aliased(self)
            return self._readable()

    def _gathered(self, layout: ShardLayout) -> Any:
        """Returns the whole value of a cut array; all workers call this together."""
        with aliasing.lock:
            purpose = f"read of {self.shared_name} (sharded: all workers read together)"
            return layout.load(self._readable(), self.topology, purpose)

    @override
    def shared_view(self, index: int) -> jax.Array:
        return super().shared_view(index) if self.layout is None else self._shard(index)

    @override
    def _shard(self, index: int) -> jax.Array:
        if self.layout is None:
            return super()._shard(index)
        whole = self._gathered(self.layout)
        if not self.topology.is_local:
            whole = shards(whole)[index]
        return to_device(whole, self.topology.local_devices[index])

    @override
    def _peek_parts(self) -> Sequence[Any]:
        count = len(self.topology.local_devices)
        if self.layout is None:
            return [self._shard(index) for index in range(count)]
        if self.topology.is_local:
            return [self._shard(0)] * count
        return [jax.ShapeDtypeStruct(self.shape, self.dtype)] * count

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
        if self.layout is not None:
            return self.layout.store(value, self.topology)
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
                return replica_writes.write_in_replica(self, change, fitting)
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
                if stack.overlay() is None:
                    worker_exchange.require_equal(self.topology, self, given)
                return self.write_all(change, given)

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

    def write_all(self, change: Change, given: Any) -> Any:
        """Writes a value that all replicas have, in cross-replica context."""
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
            # Of a cut array not the parts: they would have to be gathered.
            is_whole = self.layout is None
            return Mirrored(
                self._replicated() if is_whole else replicate(new, self.topology)
            )

    def _old_for(self, change: Change) -> jax.Array:
        """Returns the old value; hold the lock until the new one is stored."""
        if change is replace:
            return self.stored
        return self._readable() if self.layout is None else self._replicated()


register_as_pytree(MirroredVariable)
