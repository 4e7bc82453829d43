"""The strategy of variables on one device and replicas on several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from typing_extensions import override

from mirrax.collectives.all_reduce import XlaAllReduce
from mirrax.collectives.reduce import Collective
from mirrax.devices.topology import Topology, local_topology
from mirrax.strategy.extended import StrategyExtended
from mirrax.strategy.strategy import Strategy
from mirrax.variables.central_variable import CentralVariable


class CentralStorageStrategy(Strategy):
    """Synchronous data parallelism with one copy of the variables, on one device.

    The replicas read it over the wire in every step: use it when the variables do not
    fit on each device, and `MirroredStrategy` otherwise.

    Args:
        compute_devices: The devices that run replicas; all GPUs or TPUs by default, or
            else the first CPU.
        parameter_device: The device that keeps the variables; by default the one that
            computes, or else the first CPU.

    >>> strategy = CentralStorageStrategy(["CPU:0"])
    >>> strategy.extended.parameter_devices
    ('/job:localhost/replica:0/task:0/device:CPU:0',)
    """

    def __init__(
        self,
        compute_devices: Sequence[str | jax.Device] | None = None,
        parameter_device: str | jax.Device | None = None,
    ) -> None:
        topology = _compute_topology(compute_devices)
        home = _home(topology, parameter_device)
        super().__init__(topology, XlaAllReduce(), _StoreCentrally(home.devices[0]))
        self._home = home

    @property
    @override
    def extended(self) -> StrategyExtended:
        return CentralStorageExtended(self, self._collective)

    @property
    def home(self) -> Topology:
        """The device that keeps the variables."""
        return self._home


class CentralStorageExtended(StrategyExtended):
    """Tells the device that keeps variables from those that run replicas."""

    @property
    @override
    def parameter_devices(self) -> tuple[str, ...]:
        names: tuple[str, ...] = self._strategy.home.names
        return names


def _compute_topology(devices: Sequence[str | jax.Device] | None) -> Topology:
    topology = local_topology(devices)
    is_cpu = topology.devices[0].platform == "cpu"
    return local_topology(["CPU:0"]) if is_cpu and not devices else topology


def _home(topology: Topology, device: str | jax.Device | None) -> Topology:
    if device is None:
        return topology if topology.is_single else local_topology(["CPU:0"])
    return local_topology([device])


class _StoreCentrally:
    """Makes variables that are kept on one device, wherever the replicas are.

    Args:
        device: That device.
    """

    def __init__(self, device: jax.Device) -> None:
        self._device = device

    def __call__(
        self,
        owner: Any,
        collective: Collective,
        next_creator: Callable[..., Any],
        **kwargs: Any,
    ) -> Any:
        return CentralVariable(collective, self._device, **kwargs, owner=owner)
