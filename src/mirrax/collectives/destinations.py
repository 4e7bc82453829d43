"""Where a reduced value goes: the devices of a variable, a value or a name."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax

from mirrax._jax.arrays import shards, uncommitted
from mirrax.devices.logical_devices import resolve
from mirrax.devices.topology import Topology
from mirrax.values.distributed_values import DistributedValues
from mirrax.values.layouts import to_device
from mirrax.values.mirrored import Mirrored


@runtime_checkable
class LiesSomewhere(Protocol):
    """What knows the devices that hold it, as variables do."""

    @property
    def lies_on(self) -> tuple[jax.Device, ...]: ...


def place(array: Any, destinations: Any, topology: Topology) -> Any:
    """Returns `array` on the devices of `destinations`: mirrored if they are several.

    Args:
        topology: The devices that a per-replica value means.
    """
    if isinstance(array, jax.core.Tracer):
        return Mirrored(array)
    devices = devices_of(destinations, topology)
    if len(devices) == 1:
        return _on_device(array, devices[0])
    target = Topology(devices).replicated
    is_there = isinstance(array, jax.Array) and array.sharding == target
    return Mirrored(array if is_there else jax.device_put(host_view(array), target))


def devices_of(destinations: Any, topology: Topology) -> tuple[jax.Device, ...]:
    """Returns the devices that `destinations` means, or raises."""
    match destinations:
        case LiesSomewhere():
            return destinations.lies_on
        case Mirrored():
            return tuple(s.device for s in shards(destinations.array))
        case DistributedValues():
            return topology.devices
        case str():
            return resolve([destinations])
        case list() | tuple():
            return resolve(list(destinations))
        case jax.Array():
            if len(destinations.devices()) == 1:
                return tuple(destinations.devices())
            return topology.devices
        case _:
            raise TypeError(
                "`destinations` is a variable, a distributed value, the name of a "
                f"device or a list of names. Received: {destinations!r}."
            )


def host_view(array: Any) -> Any:
    """Returns a replicated array as an ordinary one, on the first local device."""
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        return array
    return uncommitted(shards(array)[0])


def _on_device(array: Any, device: jax.Device) -> jax.Array:
    if isinstance(array, jax.Array):
        for shard in shards(array):
            if shard.device == device:
                return uncommitted(shard)
        array = host_view(array)
    return to_device(array, device)
