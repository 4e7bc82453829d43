"""The physical and logical devices of this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mirrax.devices.device_names import KINDS, find_kind
from mirrax.devices.logical_devices import LogicalDevice as LogicalDevice
from mirrax.devices.logical_devices import local_devices, set_cpu_devices
from mirrax.devices.physical_devices import count_physical_devices
from mirrax.run.compiled.function import Function


@dataclasses.dataclass(frozen=True)
class PhysicalDevice:
    """A device of the machine. All CPU cores together are one device.

    >>> PhysicalDevice("/physical_device:CPU:0", "CPU").device_type
    'CPU'
    """

    name: str
    device_type: str


@dataclasses.dataclass(frozen=True)
class LogicalDeviceConfiguration:
    """One logical device on a physical one.

    >>> LogicalDeviceConfiguration().memory_limit is None
    True
    """

    memory_limit: int | None = None
    experimental_priority: int | None = None
    experimental_device_ordinal: int | None = None


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Makes all functions run as plain Python, for debugging, or stops that.

    >>> run_functions_eagerly(True)
    >>> mirrax.function(lambda x: f"{x} is no tracer")(1)
    '1 is no tracer'
    >>> run_functions_eagerly(False)
    """
    Function.runs_eagerly = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Returns whether functions run as plain Python.

    >>> functions_run_eagerly()
    False
    """
    return Function.runs_eagerly


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Returns the devices of the machine, of one type or of all.

    Does not start JAX, unless an accelerator driver is installed and that type is
    requested: call `set_logical_devices` first then.

    >>> list_physical_devices("CPU")
    [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]
    """
    return [
        PhysicalDevice(f"/physical_device:{kind}:{index}", kind)
        for kind in _select_kinds(device_type)
        for index in range(count_physical_devices(kind))
    ]


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Returns the devices that Mirrax may use: all physical ones.

    >>> get_visible_devices("CPU") == list_physical_devices("CPU")
    True
    """
    return list_physical_devices(device_type)


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Returns the devices that replicas can run on. Starts JAX.

    >>> list_logical_devices("CPU")[0]
    LogicalDevice(name='/device:CPU:0', device_type='CPU')
    """
    return [
        LogicalDevice(f"/device:{kind}:{index}", kind)
        for kind in _select_kinds(device_type)
        for index, _ in enumerate(local_devices(kind))
    ]


def set_logical_devices(device_type: str, count: int) -> None:
    """Sets the number of logical CPU devices.

    Call it before the first JAX operation; the last call counts. Afterwards only the
    current number is accepted.

    >>> set_logical_devices("CPU", len(list_logical_devices("CPU")))
    """
    if find_kind(device_type) != "CPU":
        raise ValueError(
            "Only the CPU can have several logical devices. "
            f"Received: device_type={device_type!r}. Use 'CPU'."
        )
    set_cpu_devices(count)


def set_logical_device_configuration(
    device: PhysicalDevice, logical_devices: Sequence[LogicalDeviceConfiguration]
) -> None:
    """Sets the number of logical CPU devices to the length of the list.

    >>> (cpu,) = list_physical_devices("CPU")
    >>> logical = [LogicalDeviceConfiguration() for _ in list_logical_devices("CPU")]
    >>> set_logical_device_configuration(cpu, logical)
    """
    limits = [configuration.memory_limit for configuration in logical_devices]
    if any(limit is not None for limit in limits):
        raise ValueError(
            "Setting memory limit on CPU virtual devices is currently not supported. "
            f"Received: memory_limit={limits}. Leave `memory_limit` out."
        )
    set_logical_devices(device.device_type, len(logical_devices))


def _select_kinds(device_type: str | None) -> tuple[str, ...]:
    if device_type is None:
        return KINDS
    kind = find_kind(device_type)
    return () if kind is None else (kind,)
