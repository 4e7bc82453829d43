"""`MirroredStrategy`: several devices of one machine."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from mirrax.collectives.all_reduce import XlaAllReduce
from mirrax.collectives.cross_device_ops import CrossDeviceOps
from mirrax.devices.logical_devices import LogicalDevice
from mirrax.devices.topology import local_topology
from mirrax.strategy.strategy import Strategy
from mirrax.strategy.variable_creators import create_mirrored


class MirroredStrategy(Strategy):
    """Synchronous data parallelism over the devices of one machine.

    Each device runs one replica and has a copy of every variable.

    Args:
        devices: Their names, or logical or JAX devices; all GPUs or TPUs by default, or
            else all CPU devices.
        cross_device_ops: How values of several replicas are added up; XLA's all-reduce
            by default.

    >>> strategy = MirroredStrategy(["CPU:0"])
    >>> strategy.num_replicas_in_sync
    1
    """

    def __init__(
        self,
        devices: Sequence[str | LogicalDevice | jax.Device] | None = None,
        cross_device_ops: CrossDeviceOps | None = None,
    ) -> None:
        if cross_device_ops is not None and not isinstance(
            cross_device_ops, CrossDeviceOps
        ):
            raise ValueError(
                "`cross_device_ops` must be a `CrossDeviceOps`, such as "
                f"ReductionToOneDevice(). Received: {cross_device_ops!r}."
            )
        topology = local_topology(devices)
        super().__init__(topology, cross_device_ops or XlaAllReduce(), create_mirrored)
