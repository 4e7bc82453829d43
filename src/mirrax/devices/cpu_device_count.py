"""The number of CPU devices that JAX is configured to create."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re

import jax

_FORCED_COUNT = re.compile(
    r"--xla_force_host_platform_device_count=['\"]?([0-9]+)", re.ASCII
)


def requested_cpu_devices() -> int:
    """Returns how many CPU devices JAX would create now; does not start JAX."""
    return count_requested(
        num_cpu_devices=int(jax.config.jax_num_cpu_devices),  # type: ignore[attr-defined]
        xla_flags=_read_xla_flags(os.environ.get("XLA_FLAGS", "")),
    )


def count_requested(num_cpu_devices: int, xla_flags: str) -> int:
    """Returns how many CPU devices two settings request together.

    Args:
        num_cpu_devices: The setting `jax_num_cpu_devices`, which overrides the flags;
            negative when unset.
        xla_flags: The flags in `XLA_FLAGS`, of which the last one wins.

    >>> count_requested(-1, "--xla_force_host_platform_device_count=8")
    8
    """
    if num_cpu_devices >= 0:
        return max(1, num_cpu_devices)
    counts = _FORCED_COUNT.findall(xla_flags)
    return max(1, int(counts[-1])) if counts else 1


def _read_xla_flags(value: str) -> str:
    # A value that does not start with "--" names a file of flags.
    path = value.strip()
    if not path or path.startswith("--"):
        return value
    # XLA itself reports an unreadable file when it starts.
    with contextlib.suppress(OSError):
        return pathlib.Path(path).read_text()
    return ""
