"""What the machine has, told without starting JAX wherever that is possible."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os

import jax

from mirrax._jax.distributed import backend_is_up
from mirrax.devices.logical_devices import local_devices

# By these JAX finds a driver for an accelerator, and by nothing else.
_MODULES = ("jax_plugins", "libtpu")
_VARIABLES = ("PJRT_NAMES_AND_LIBRARY_PATHS", "TPU_LIBRARY_PATH")


def count_physical_devices(kind: str) -> int:
    """Returns how many devices of a kind the machine has; all its cores are one CPU.

    Starts JAX's backend only to count the accelerators of a machine that has drivers.

    >>> count_physical_devices("CPU")
    1
    """
    if kind == "CPU":
        return 1
    if not backend_is_up() and not _may_have_accelerators():
        return 0
    return len(local_devices(kind))


def _may_have_accelerators() -> bool:
    if jax.config.jax_platforms == "cpu":  # type: ignore[attr-defined]
        return False
    return (
        any(importlib.util.find_spec(name) for name in _MODULES)
        or any(name in os.environ for name in _VARIABLES)
        or bool(importlib.metadata.entry_points(group="jax_plugins"))
    )
