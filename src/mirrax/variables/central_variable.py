"""Variables on one device, for replicas on several."""

from __future__ import annotations

from typing import Any

import jax
from typing_extensions import override

from mirrax.collectives.reduce import Collective
from mirrax.context import stack
from mirrax.values.layouts import to_device
from mirrax.variables import replica_writes
from mirrax.variables.variable import Change, Variable, register_as_pytree


class CentralVariable(Variable):
    """A variable on one device, that all replicas read and write together.

    Args:
        arguments: Those of `Variable`.
    """

    is_written_together = True

    def __init__(
        self, collective: Collective, device: jax.Device, **arguments: Any
    ) -> None:
        self.collective = collective
        self._home = device
        super().__init__(**arguments, device=device)

    @override
    def store(self, array: jax.Array) -> None:
        # A program over all replicas returns it on the first of them.
        super().store(to_device(array, self._home))

    @override
    def _write(self, change: Change, given: Any) -> Any:
        if isinstance(stack.frame(), stack.Replica):
            return replica_writes.write_in_replica(self, change, self._fitting(given))
        return super()._write(change, given)

    def write_all(self, change: Change, given: Any) -> Any:
        """Writes a value that all replicas have, in cross-replica context."""
        return self._write(change, given)


register_as_pytree(CentralVariable)
