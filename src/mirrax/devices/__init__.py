"""Device names, logical CPU devices, and the topology of replicas."""

from mirrax.devices.cpu_threads import reserve_requested as reserve_requested
from mirrax.devices.logical_devices import default_devices as default_devices
from mirrax.devices.logical_devices import device_kind as device_kind
from mirrax.devices.logical_devices import resolve as resolve
from mirrax.devices.topology import local_topology as local_topology
