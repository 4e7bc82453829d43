"""Variables with an equal copy on every replica."""

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
from mirrax.variables.variable import Change, register_as_pytree, replace


class MirroredVariable(DistributedVariable):
    """A variable with an equal copy on every replica, kept equal on every write."""

    is_written_together = True

    @override
    def copies(self) -> PerReplica:
        overlay = stack.overlay()
        if overlay is None:
            with aliasing.lock:
                aliasing.mark_aliased(self)
                aliasing.require_alive(self, self.stored)
                return PerReplica(Replicated(self.stored, self.topology))
        if overlay.inside_replica:
            return PerReplica(Spmd(overlay.read(self)))
        return PerReplica(Replicated(overlay.read(self), self.topology))

    @override
    def part(self, index: int) -> jax.Array:
        return self.shared_view(index)

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
        return replicate(array, self.topology)

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
                with aliasing.lock:
                    self._write_all(change, given)
                    return Mirrored(self.stored)

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
        self.store(replicate(values[0], self.topology))

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
            self.store(replicate(new, self.topology))
            return self.copies()


register_as_pytree(MirroredVariable)
