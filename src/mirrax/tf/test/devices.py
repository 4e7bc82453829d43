"""Which devices there are, and which JAX is built for."""

from __future__ import annotations

from typing import Any

import jax

from mirrax import config


def gpu_device_name() -> str:
    """Returns the name of the first GPU, or an empty text."""
    found = config.list_logical_devices("GPU")
    return f"/device:{found[0].name.rpartition('device:')[2]}" if found else ""


def is_gpu_available(
    cuda_only: bool = False, min_cuda_compute_capability: Any = None
) -> bool:
    return bool(config.list_logical_devices("GPU"))


def is_built_with_gpu_support() -> bool:
    """Returns whether JAX can use GPUs here."""
    return is_built_with_cuda() or is_built_with_rocm()


def is_built_with_cuda() -> bool:
    return is_gpu_available() and "cuda" in _version()


def is_built_with_rocm() -> bool:
    return is_gpu_available() and "rocm" in _version()


def is_built_with_xla() -> bool:
    return True


def _version() -> str:
    return str(jax.devices("gpu")[0].client.platform_version).lower()
