"""Variables whose copies are equal: each write reaches all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from mirrax.collectives import within
from mirrax.collectives.reduce import reduce
from mirrax.context import stack
from mirrax.options import VariableAggregation
from mirrax.values.distributed import DistributedValues
from mirrax.values.layouts import Alike, Spmd, replicate
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from mirrax.variables import checks
from mirrax.variables.distributed import REDUCTIONS, DistributedVariable
from mirrax.variables.variable import Change, register_as_pytree


class MirroredVariable(DistributedVariable):
    """A variable with an equal copy on every replica, kept equal on every write."""

    @override
    def part(self, index: int) -> jax.Array:
        return self._lend(index)

    @override
    def read_stored(self) -> jax.Array:
        self.refuse_foreign_trace()
        index = self.local_index() or 0
        frame = stack.frame()
        if isinstance(frame, stack.Update) and index in frame.pending.get(self, {}):
            return frame.pending[self][index]  # type: ignore[no-any-return]
        return self._lend(index if index < len(self.topology.local_devices) else 0)

    @override
    def _store_initial(self, array: jax.Array) -> jax.Array:
        return replicate(array, self.topology)

    @override
    def _write(self, change: Change, given: Any) -> Any:
        match stack.frame():
            case stack.Replica(context=context) as frame:
                self._require_strategy(frame.strategy)

                def write_once(_: Any, value: Any) -> Any:
                    return self._write_all(change, self._aggregate(value))

                fit = checks.fitting(given, self._shape, self._dtype, self.name)
                return context.merge_call(write_once, args=(fit,))
            case stack.Update(index=index, pending=pending) if stack.overlay() is None:
                fit = checks.fitting(given, self._shape, self._dtype, self.name)
                new = jnp.asarray(change(self.read_stored(), fit))
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
                fit = checks.fitting(given, self._shape, self._dtype, self.name)
                result = self._write_all(change, fit)
                return result if stack.overlay() else Mirrored(self.stored)

    def commit_update(self, values: Sequence[jax.Array]) -> None:
        """Stores what `extended.update` wrote, one value per copy, all equal."""
        self._require_equal(values)
        self.stored = replicate(values[0], self.topology)

    def _write_all(self, change: Change, given: Any) -> Any:
        overlay = stack.overlay()
        if overlay is not None:
            overlay.write(self, change(overlay.read(self), given))
            return overlay.read(self)
        new = change(self.stored, given)
        self.stored = replicate(new, self.topology)
        return PerReplica(Alike(self.stored, self.topology))

    def _aggregate(self, value: Any) -> Any:
        """Returns what the values of all replicas amount to."""
        if not isinstance(value, DistributedValues):
            is_sum = self.aggregation is VariableAggregation.SUM
            return value * self.topology.num_replicas if is_sum else value
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

    def _require_equal(self, values: Sequence[Any]) -> None:
        first = np.asarray(values[0])
        for index, value in enumerate(values):
            other = np.asarray(value)
            is_float = np.issubdtype(first.dtype, np.floating)
            if not np.array_equal(first, other, equal_nan=is_float):
                raise ValueError(unequal_write(self.name, index, first, other))


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
