"""Variables whose copies are equal: each write reaches all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.collectives import agreement, within
from mirrax.collectives.reduce import reduce
from mirrax.context import stack
from mirrax.options import VariableAggregation
from mirrax.trees import Same
from mirrax.values.distributed import DistributedValues
from mirrax.values.layouts import Alike, Spmd, replicate
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import parts_of
from mirrax.variables import lending
from mirrax.variables.distributed import REDUCTIONS, DistributedVariable
from mirrax.variables.variable import Change, register_as_pytree


class MirroredVariable(DistributedVariable):
    """A variable with an equal copy on every replica, kept equal on every write."""

    @override
    def copies(self) -> PerReplica:
        overlay = stack.overlay()
        if overlay is None:
            lending.mark(self)
            return PerReplica(Alike(self.stored, self.topology))
        if overlay.inside_replica:
            return PerReplica(Spmd(overlay.read(self)))
        return PerReplica(Alike(overlay.read(self), self.topology))

    @override
    def part(self, index: int) -> jax.Array:
        return self.lend(index)

    @override
    def read_stored(self) -> jax.Array:
        self.refuse_foreign_trace()
        pending = self._pending()
        return self.lend(self._own_index()) if pending is None else pending

    @override
    def _peek(self) -> jax.Array:
        pending = self._pending()
        return self._shard(self._own_index()) if pending is None else pending

    def _own_index(self) -> int:
        index = self.local_index() or 0
        return index if index < len(self.topology.local_devices) else 0

    def _pending(self) -> jax.Array | None:
        """Returns what `extended.update` has written to this copy so far."""
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
            case stack.Replica(context=context) as frame:
                self._require_strategy(frame.strategy)
                write = _Write(Same(self), change)
                return context.merge_call(write, args=(self._fitting(given),))
            case stack.Update(index=index, pending=pending) if stack.overlay() is None:
                new = change(self.read_stored(), self._fitting(given))
                pending.setdefault(self, {})[index] = new
                return new
            case _:
                if isinstance(given, PerReplica):
                    raise ValueError(
                        f"Variable '{self.name}' has equal copies, so one value is "
                        "assigned to all. Received: a PerReplica. Reduce it first "
                        "(`strategy.reduce`), or assign inside `strategy.run` with an "
                        "`aggregation`."
                    )
                given = self._fitting(given)
                if stack.overlay() is None:
                    agreement.require_equal(self.topology, self.name, given)
                result = self._write_all(change, given)
                return result if stack.overlay() else Mirrored(self.stored)

    def commit_update(self, values: Sequence[jax.Array | None]) -> None:
        """Stores what `extended.update` wrote, one value per copy, all equal."""
        missing = [index for index, value in enumerate(values) if value is None]
        if missing:
            raise ValueError(
                f"Variable '{self.name}' must be changed alike on every replica. "
                f"Received: an update that leaves out replica(s) {missing}."
            )
        self._require_equal(values)
        agreement.require_equal(self.topology, self.name, values[0])
        self.store(replicate(values[0], self.topology))

    def write_merged(self, change: Change, value: Any, num_replicas: int) -> Any:
        """Writes what the values of all replicas amount to."""
        return self._write_all(change, self._aggregate(value, num_replicas))

    def _write_all(self, change: Change, given: Any) -> Any:
        overlay = stack.overlay()
        if overlay is not None:
            overlay.write(self, change(overlay.read(self), given))
            return overlay.read(self)
        if not isinstance(given, np.ndarray):
            given = replicate(given, self.topology)
        self.store(replicate(change(self.stored, given), self.topology))
        return self.copies()

    def _aggregate(self, value: Any, num_replicas: int) -> Any:
        """Returns what the values of all replicas amount to."""
        if not self.topology.is_local and stack.overlay() is None:
            return self._aggregate_over_workers(value)
        if not isinstance(value, DistributedValues):
            is_sum = self.aggregation is VariableAggregation.SUM
            return value * num_replicas if is_sum else value
        assert isinstance(value, PerReplica)
        if self.aggregation in REDUCTIONS:
            op = REDUCTIONS[self.aggregation]
            return reduce(self.collective, op, [value], axis=None)[0]
        if isinstance(value.layout, Spmd):
            is_first = self.aggregation is VariableAggregation.ONLY_FIRST_REPLICA
            # With NONE the analysis of the traced program refuses unequal values.
            return within.first(value.layout.value) if is_first else value.layout.value
        if self.aggregation is VariableAggregation.NONE:
            self._require_equal(value.values)
        return np.asarray(value.values[0])

    def _aggregate_over_workers(self, value: Any) -> Any:
        parts = parts_of(value, self.topology)
        if self.aggregation in REDUCTIONS:
            op = REDUCTIONS[self.aggregation]
            return reduce(self.collective, op, [PerReplica(tuple(parts))], None)[0]
        if self.aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            return agreement.from_first(self.topology, f"assign {self.name}", parts[0])
        self._require_equal(parts)
        agreement.require_equal(self.topology, self.name, parts[0])
        return np.asarray(parts[0])

    def _require_equal(self, values: Sequence[Any]) -> None:
        first = np.asarray(values[0])
        for index, value in enumerate(values):
            other = np.asarray(value)
            if not np.all((first == other) | (_is_nan(first) & _is_nan(other))):
                raise ValueError(unequal_write(self.name, index, first, other))


@dataclasses.dataclass(frozen=True)
class _Write:
    """The merge function of a write: replicas must write to the same variable."""

    variable: Same
    change: Change

    def __call__(self, strategy: Any, value: Any) -> Any:
        count = strategy.num_replicas_in_sync
        return self.variable.value.write_merged(self.change, value, count)


def _is_nan(value: Any) -> Any:
    # Works for every dtype, unlike NumPy's own.
    return value != value  # noqa: PLR0124


def unequal_write(name: str, index: int, first: Any, other: Any) -> str:
    """Returns the message for replicas that write different values."""
    return (
        f"Variable '{name}' has aggregation NONE, so every replica must assign the "
        f"same value. Received: replica 0 assigns {first}, replica {index} assigns "
        f"{other}. Combine the values first (`get_replica_context().all_reduce`), or "
        "create the variable with an `aggregation` (SUM, MEAN, ONLY_FIRST_REPLICA)."
    )


register_as_pytree(MirroredVariable)

__all__ = ["MirroredVariable", "unequal_write"]
