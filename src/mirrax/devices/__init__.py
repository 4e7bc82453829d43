"""Device names, logical CPU devices, and the topology of replicas."""

from mirrax.devices.cpu_threads import reserve_at_import as reserve_at_import
from mirrax.devices.device_names import DeviceName as DeviceName
from mirrax.devices.device_names import canonicalize as canonicalize
from mirrax.devices.device_names import parse as parse
from mirrax.devices.logical_devices import default_devices as default_devices
from mirrax.devices.logical_devices import device_kind as device_kind
from mirrax.devices.logical_devices import ensure_cpu_devices as ensure_cpu_devices
from mirrax.devices.logical_devices import local_devices as local_devices
from mirrax.devices.logical_devices import name_of as name_of
from mirrax.devices.logical_devices import resolve as resolve
from mirrax.devices.logical_devices import set_cpu_devices as set_cpu_devices
from mirrax.devices.topology import AXIS as AXIS
from mirrax.devices.topology import Topology as Topology
from mirrax.devices.topology import local_topology as local_topology
