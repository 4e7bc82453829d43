"""The number of CPU devices, and threads for them, so that no all-reduce deadlocks.

XLA's all-reduce between CPU devices of one process blocks a thread of the backend's
pool for each device. With fewer than two threads per device it deadlocks, and XLA
aborts the process after 40 s. The backend sizes its pool once, when it starts.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys
import time
from collections.abc import Mapping

import jax

from mirrax._jax.distributed import backend_is_up

VARIABLE = "PJRT_NPROC"
"""The environment variable for the size of XLA's pool."""

# XLA reads the second when the first holds no number.
_VARIABLES = (VARIABLE, "NPROC")
_NUMBER = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
# What XLA calls the threads of the pool.
_THREAD_NAME = "tf_XLAEigen"
_TASKS = pathlib.Path("/proc/self/task")
_FORCED_COUNT = re.compile(
    r"--xla_force_host_platform_device_count=['\"]?([0-9]+)", re.ASCII
)

# The pool size in the environment before the backend read it; it may change later.
_reserved: int | None = None


def required_threads(num_devices: int, cores: int) -> int:
    """Returns how many threads use all cores and avoid the deadlock.

    >>> required_threads(num_devices=8, cores=2)
    16
    """
    return max(cores, 2 * num_devices)


def configured_threads(environment: Mapping[str, str], cores: int) -> int:
    """Returns the pool size that an environment configures.

    >>> configured_threads({"PJRT_NPROC": "4"}, cores=2)
    4
    """
    for name in _VARIABLES:
        value = environment.get(name, "")
        if _NUMBER.fullmatch(value):
            return max(0, int(value))
    return cores


def reserve(num_devices: int, *, in_job: bool = False) -> None:
    """Raises the pool size for this many CPU devices, if JAX has not started yet.

    Args:
        in_job: Whether they wait for devices of other workers, so that even a single
            one blocks a thread.
    """
    global _reserved  # noqa: PLW0603
    if backend_is_up():
        return
    cores = count_cores()
    _reserved = configured_threads(os.environ, cores)
    if (num_devices > 1 or in_job) and _reserved < 2 * num_devices:
        _reserved = required_threads(num_devices, cores)
        os.environ[VARIABLE] = str(_reserved)


def reserve_requested() -> None:
    """Reserves threads for the CPU devices that JAX would create now."""
    reserve(requested_cpu_devices())


def check(num_devices: int) -> None:
    """Raises a RuntimeError if JAX started with too few threads for the devices."""
    needed = 2 * num_devices
    if num_devices < 2 or not backend_is_up():
        return
    threads = _count_threads(needed)
    if threads < needed:
        raise RuntimeError(
            "A collective over N CPU devices needs 2*N threads in JAX's CPU backend, "
            "or it deadlocks; and JAX has already started with fewer. "
            f"Received: {num_devices} devices, {threads} threads. Create the strategy, "
            f"or call mirrax.config.set_logical_devices('CPU', {num_devices}), before "
            "the first JAX operation; or start Python with the environment variable "
            f"{VARIABLE}={required_threads(num_devices, count_cores())}."
        )


def _count_threads(needed: int) -> int:
    configured = configured_threads(os.environ, count_cores())
    promised = min(_reserved or 0, configured)
    if promised >= needed:
        return promised
    return _count_running_threads(needed) or (promised if _reserved else configured)


def _count_running_threads(expected: int) -> int:
    """Returns the number of threads in the pool; 0 if there is no /proc, as on Macs."""
    if not _TASKS.is_dir():
        return 0
    # A thread gets its name once it runs, a moment after the backend has started.
    deadline = time.monotonic() + 1.0
    while (count := _count_named_threads()) < expected and time.monotonic() < deadline:
        time.sleep(0.02)
    return count


def _count_named_threads() -> int:
    return sum(_read_name(path) == _THREAD_NAME for path in _TASKS.glob("*/comm"))


def _read_name(path: pathlib.Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # The thread has ended since it was listed.
        return ""


def count_cores() -> int:
    """Returns how many cores this process may use, as XLA counts them."""
    is_linux = sys.platform == "linux"
    return len(os.sched_getaffinity(0)) if is_linux else os.cpu_count() or 1


def requested_cpu_devices() -> int:
    """Returns how many CPU devices JAX would create now; does not start JAX."""
    return count_requested(
        num_cpu_devices=int(jax.config.jax_num_cpu_devices),  # type: ignore[attr-defined]
        xla_flags=os.environ.get("XLA_FLAGS", ""),
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
