"""The base of mirrored and sync-on-read variables."""

from __future__ import annotations

import abc
from typing import Any

import jax
from typing_extensions import override

from mirrax._jax.traces import is_in_callback
from mirrax.collectives.reduce import Collective
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.values.array_like import ArrayLike
from mirrax.values.distributed_values import DistributedValues, describe_parts
from mirrax.values.per_replica import PerReplica
from mirrax.variables import aliasing
from mirrax.variables.variable import Variable, describe_variable, register_as_pytree


class DistributedVariable(Variable, DistributedValues):
    """A variable with one copy per replica.

    Args:
        arguments: Those of `Variable`.
    """

    def __init__(self, collective: Collective, **arguments: Any) -> None:
        self.collective = collective
        super().__init__(**arguments)

    @property
    def topology(self) -> Topology:
        return self.collective.topology

    @property
    @override
    def lies_on(self) -> tuple[jax.Device, ...]:
        return self.topology.devices

    @property
    @override
    def device(self) -> str:
        """The device name of the copy that this code sees, or of the first."""
        local = self.topology.local_replicas
        return self.topology.names[local[min(self.local_index() or 0, len(local) - 1)]]

    @property
    @override
    def values(self) -> tuple[Any, ...]:
        return tuple(
            VariablePart(self, index)
            for index in range(len(self.topology.local_devices))
        )

    @override
    def for_replica(self, index: int) -> Any:
        return self

    @abc.abstractmethod
    def copies(self) -> PerReplica:
        """Returns the values of all copies, as in cross-replica context."""

    @override
    def __repr__(self) -> str:
        if stack.overlay() is not None:
            return describe_variable(self, self.read_value())
        with aliasing.lock:
            pairs = zip(self.values, self._peek_parts(), strict=True)
            shown = tuple(describe_variable(part, value) for part, value in pairs)
        return describe_parts(type(self).__name__, shown, str)

    @override
    def __str__(self) -> str:
        return repr(self)

    def local_index(self) -> int | None:
        """Returns the index of the copy that this code sees; None if it sees all."""
        match stack.frame():
            case stack.Replica(strategy=strategy, index=index):
                self._require_strategy(strategy)
                return index
            case stack.Update(index=index):
                return index
            case _:
                return None

    def _refuse_in_callback(self, what: str) -> None:
        """Raises in a callback, whose program holds the devices."""
        if not self.topology.is_single and is_in_callback():
            raise RuntimeError(
                "A callback runs while its program holds the devices, so an operation "
                f"on all of them would deadlock. Received: {what} of variable "
                f"'{self.name}', which has a copy on each of "
                f"{list(self.topology.names)}, in a callback. Return the value from "
                "the callback and assign it in the function, or assign after the call."
            )

    def _require_strategy(self, strategy: Any) -> None:
        topology = strategy.topology
        if topology != self.topology and not topology.is_single:
            raise RuntimeError(
                f"Variable '{self.name}' is on {list(self.topology.names)}. Received: "
                f"a use inside `run` of a strategy on {list(topology.names)}. Create "
                "it in the scope of that strategy."
            )


class VariablePart(ArrayLike):
    """A read-only handle of one copy of a variable."""

    def __init__(self, container: DistributedVariable, index: int) -> None:
        self.container = container
        self.index = index
        self.shown_as = container.shown_as
        self.trainable = container.trainable
        self.aggregation = container.aggregation
        self.synchronization = container.synchronization

    @property
    def name(self) -> str:
        name = self.container.name.removesuffix(":0")
        return f"{name}/replica_{self.index}:0" if self.index else f"{name}:0"

    @property
    def device(self) -> str:
        topology = self.container.topology
        return topology.names[topology.local_replicas[self.index]]

    @property
    def lies_on(self) -> tuple[jax.Device, ...]:
        return (self.container.topology.local_devices[self.index],)

    @override
    def __jax_array__(self) -> jax.Array:
        return self.container.shared_view(self.index)

    read_value = __jax_array__
    value = property(__jax_array__)

    def assign(self, *_: Any, **__: Any) -> Any:
        """Raises: the copies must stay equal."""
        raise RuntimeError(
            f"'{self.name}' is one copy of a variable, and copies must stay equal, so "
            f"they cannot be assigned one by one. Assign to '{self.container.name}'."
        )

    assign_add = assign
    assign_sub = assign

    @override
    def __repr__(self) -> str:
        return describe_variable(self, self.value)


register_as_pytree(VariablePart)
