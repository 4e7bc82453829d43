"""Reserves threads for the CPU backend, so that an all-reduce cannot deadlock.

XLA's all-reduce between CPU devices of one process blocks a thread of the backend's
pool for each device. With fewer than two threads per device it deadlocks, and XLA
aborts the process after 40 s. The backend sizes its pool once, when it starts.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import pathlib
import re
import sys
import time
from collections.abc import Mapping

from mirrax._jax.distributed import backend_is_up
from mirrax.devices.cpu_device_count import requested_cpu_devices

VARIABLE = "PJRT_NPROC"
"""The environment variable for the size of XLA's pool."""

# XLA reads the second when the first holds no number.
_VARIABLES = (VARIABLE, "NPROC")
_NUMBER = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
# What XLA calls the threads of the pool.
_THREAD_NAME = "tf_XLAEigen"
_TASKS = pathlib.Path("/proc/self/task")
_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _Reservation:
    """The pool size in the environment when last read before the backend started."""

    threads: int
    is_ours: bool


# The variable may change after the backend has read it, so it is recorded before.
_reservation: _Reservation | None = None


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


def reserve(num_devices: int) -> None:
    """Raises the pool size for this many CPU devices, if JAX has not started yet."""
    global _reservation  # noqa: PLW0603
    if backend_is_up():
        return
    cores = count_cores()
    configured = configured_threads(os.environ, cores)
    is_ours = _reservation == _Reservation(configured, is_ours=True)
    if num_devices > 1 and configured < 2 * num_devices:
        # No warning about a value that Mirrax itself set for fewer devices.
        if VARIABLE in os.environ and not is_ours:
            _warn_of_too_few(num_devices)
        configured, is_ours = required_threads(num_devices, cores), True
        os.environ[VARIABLE] = str(configured)
    _reservation = _Reservation(configured, is_ours)


def reserve_at_import() -> None:
    """Reserves threads for the CPU devices configured so far."""
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


def _warn_of_too_few(num_devices: int) -> None:
    _LOGGER.warning(
        "A collective over N CPU devices needs 2*N threads, or it deadlocks. "
        "Received: %d devices, %s=%s. Mirrax raises the variable.",
        num_devices,
        VARIABLE,
        os.environ[VARIABLE],
    )


def _count_threads(needed: int) -> int:
    configured = configured_threads(os.environ, count_cores())
    if _reservation is None:
        return _count_running_threads(needed) or configured
    promised = min(_reservation.threads, configured)
    if promised >= needed:
        return promised
    return _count_running_threads(needed) or promised


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
