"""`tf.config`: devices and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirrax.config import LogicalDevice as LogicalDevice
from mirrax.config import LogicalDeviceConfiguration as LogicalDeviceConfiguration
from mirrax.config import PhysicalDevice as PhysicalDevice
from mirrax.config import functions_run_eagerly as functions_run_eagerly
from mirrax.config import get_visible_devices as get_visible_devices
from mirrax.config import list_logical_devices as list_logical_devices
from mirrax.config import list_physical_devices as list_physical_devices
from mirrax.config import run_functions_eagerly as run_functions_eagerly
from mirrax.config import (
    set_logical_device_configuration as set_logical_device_configuration,
)
from mirrax.config import set_logical_devices as set_logical_devices
from mirrax.tf.config import experimental as experimental
from mirrax.tf.config import optimizer as optimizer

experimental_functions_run_eagerly = functions_run_eagerly
experimental_run_functions_eagerly = run_functions_eagerly


def set_visible_devices(
    devices: PhysicalDevice | Sequence[PhysicalDevice], device_type: str | None = None
) -> None:
    """Accepts only the devices that are already visible."""
    wanted = [devices] if isinstance(devices, PhysicalDevice) else list(devices)
    if wanted != list_physical_devices(device_type):
        raise NotImplementedError(
            "Visible devices can not be changed: JAX chooses them when it starts. "
            f"Received: {wanted}, which are not all devices. Set "
            "CUDA_VISIBLE_DEVICES or JAX_PLATFORMS in the environment, or pass "
            "devices to the strategy."
        )


def get_soft_device_placement() -> bool:
    return True


def set_soft_device_placement(enabled: Any) -> None:
    """Does nothing: XLA runs every operation on every device type."""


def experimental_connect_to_cluster(
    cluster_spec_or_resolver: Any,
    job_name: str = "localhost",
    task_index: int = 0,
    protocol: str | None = None,
    make_master_device_default: bool = True,
    cluster_device_filters: Any = None,
) -> None:
    """Does nothing: strategies connect to the cluster."""
