"""The physical devices of the machine, without starting JAX if possible."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os

import jax

from mirrax._jax.distributed import backend_is_up
from mirrax.devices.logical_devices import local_devices

# How JAX finds drivers of accelerators.
_MODULES = ("jax_plugins", "libtpu")
_VARIABLES = ("PJRT_NAMES_AND_LIBRARY_PATHS", "TPU_LIBRARY_PATH")


def count_physical_devices(kind: str) -> int:
    """Returns the number of devices of a kind; all cores are one CPU.

    Starts JAX's backend only if the machine has drivers of accelerators.

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
