"""`OneDeviceStrategy`: a single device."""

from __future__ import annotations

from typing import Any

import jax
from typing_extensions import override

from mirrax.collectives.all_reduce import XlaAllReduce
from mirrax.devices.logical_devices import LogicalDevice
from mirrax.devices.topology import local_topology
from mirrax.strategy.scope import create_on_device
from mirrax.strategy.strategy import Strategy
from mirrax.trees import Tree


class OneDeviceStrategy(Strategy):
    """One replica on one device, to test code that is written for strategies.

    Args:
        device: Its name, such as "/cpu:0" or "GPU:1".

    >>> OneDeviceStrategy("CPU:0").run(lambda x: x * 2, args=(3,))
    6
    """

    def __init__(self, device: str | LogicalDevice | jax.Device) -> None:
        super().__init__(local_topology([device]), XlaAllReduce(), create_on_device)

    @override
    def _wrap_parts(self, parts: list[Any]) -> Tree:
        return parts[0]
