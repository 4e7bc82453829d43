"""`tf.config.experimental`."""

from __future__ import annotations

import os
from typing import Any

from mirrax import config
from mirrax.config import get_visible_devices as get_visible_devices
from mirrax.config import list_logical_devices as list_logical_devices
from mirrax.config import list_physical_devices as list_physical_devices

VirtualDeviceConfiguration = config.LogicalDeviceConfiguration
set_virtual_device_configuration = config.set_logical_device_configuration

_PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"


def set_memory_growth(device: Any, enable: bool) -> None:
    """Makes JAX allocate GPU memory on demand; call it before JAX starts."""
    os.environ[_PREALLOCATE] = "false" if enable else "true"


def get_memory_growth(device: Any) -> bool:
    return os.environ.get(_PREALLOCATE, "true").lower() in ("false", "0")


def enable_op_determinism() -> None:
    """Makes XLA choose deterministic algorithms; call it before JAX starts."""
    flag = "--xla_gpu_deterministic_ops=true"
    flags = os.environ.get("XLA_FLAGS", "")
    if flag not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {flag}".strip()
