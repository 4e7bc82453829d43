"""Puts a reduced value on its destinations: a variable, a value or device names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import jax

from mirrax._jax.arrays import shards, uncommitted, whole
from mirrax.devices.logical_devices import resolve
from mirrax.devices.topology import Topology
from mirrax.values.distributed_values import DistributedValues
from mirrax.values.layouts import to_device
from mirrax.values.mirrored import Mirrored


@runtime_checkable
class HasDevices(Protocol):
    """An object that knows its devices, such as a variable."""

    @property
    def lies_on(self) -> tuple[jax.Device, ...]: ...


def put_on_destinations(array: Any, destinations: Any, topology: Topology) -> Any:
    """Returns `array` on the devices of `destinations`, mirrored if several."""
    if isinstance(array, jax.core.Tracer):
        return Mirrored(array)
    if isinstance(array, DistributedValues):
        raise ValueError(
            "All destinations get the same value. Received: one with a value for each "
            f"replica, {array!r}. Combine them with `reduce_to`."
        )
    devices = devices_of(destinations, topology)
    if len(devices) == 1:
        return _on_device(array, devices[0])
    target = Topology(devices).replicated
    is_there = isinstance(array, jax.Array) and array.sharding == target
    return Mirrored(array if is_there else jax.device_put(host_view(array), target))


def devices_of(destinations: Any, topology: Topology) -> tuple[jax.Device, ...]:
    """Returns the devices of `destinations`, or raises."""
    match destinations:
        case HasDevices():
            return destinations.lies_on
        case Mirrored():
            return tuple(s.device for s in shards(destinations.array))
        case DistributedValues():
            return topology.devices
        case str():
            return _named([destinations], topology)
        case list() | tuple():
            return _named(destinations, topology)
        case jax.Array():
            if len(destinations.devices()) == 1:
                return tuple(destinations.devices())
            return topology.devices
        case _:
            raise TypeError(
                "`destinations` must be a variable, a distributed value, a device "
                f"name or a list of names. Received: {destinations!r}."
            )


def _named(names: Sequence[Any], topology: Topology) -> tuple[jax.Device, ...]:
    """Returns devices by name: in a job, also by the names that its strategy shows."""
    shown = [topology.names[index] for index in topology.local_replicas]
    own = dict(zip(shown, topology.local_devices, strict=True))
    return tuple(own[name] if name in own else resolve([name])[0] for name in names)


def host_view(array: Any) -> Any:
    """Returns all of an array on one local device."""
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        return array
    return uncommitted(whole(array))


def _on_device(array: Any, device: jax.Device) -> jax.Array:
    if isinstance(array, jax.Array):
        for index, shard in enumerate(shards(array)):
            if shard.device == device:
                return uncommitted(whole(array, index))
    return to_device(array, device)
