"""`CentralStorageStrategy`: variables on one device, replicas on several."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from mirrax.collectives.all_reduce import XlaAllReduce
from mirrax.collectives.reduce import Collective
from mirrax.devices.topology import Topology, local_topology
from mirrax.strategy.strategy import Strategy
from mirrax.variables.central_variable import CentralVariable


class CentralStorageStrategy(Strategy):
    """Synchronous data parallelism with one copy of the variables, on one device.

    The replicas copy them in every step. Use it when the variables do not fit on each
    device, and `MirroredStrategy` otherwise.

    Args:
        compute_devices: The devices that run replicas; all GPUs or TPUs by default, or
            else the first CPU.
        parameter_device: The device that stores the variables; by default the compute
            device if it is one, or else the first CPU.

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
        storage = _storage_topology(topology, parameter_device)
        create = functools.partial(_create_central, storage.devices[0])
        super().__init__(topology, XlaAllReduce(), create, storage=storage)


def _compute_topology(devices: Sequence[str | jax.Device] | None) -> Topology:
    topology = local_topology(devices)
    is_cpu = topology.devices[0].platform == "cpu"
    return local_topology(["CPU:0"]) if is_cpu and not devices else topology


def _storage_topology(topology: Topology, device: str | jax.Device | None) -> Topology:
    if device is None:
        return topology if topology.is_single else local_topology(["CPU:0"])
    return local_topology([device])


def _create_central(
    device: jax.Device,
    owner: Any,
    collective: Collective,
    next_creator: Callable[..., Any],
    **kwargs: Any,
) -> Any:
    return CentralVariable(collective, device, **kwargs, owner=owner)
