"""`tensorflow.python.client.device_lib`: the devices of this machine."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirrax.config import list_physical_devices


@dataclasses.dataclass(frozen=True)
class DeviceAttributes:
    """A device; Mirrax knows only its name and its type."""

    name: str
    device_type: str
    memory_limit: int = 0
    physical_device_desc: str = ""


def list_local_devices(session_config: Any = None) -> list[DeviceAttributes]:
    """Returns the devices of this machine.

    >>> list_local_devices()[0].name
    '/device:CPU:0'
    """
    return [
        DeviceAttributes(device.name.replace("physical_device", "device"), kind)
        for device in list_physical_devices()
        for kind in [device.device_type]
    ]
