"""JAX's backends, and its connection to other processes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax

from mirrax._jax.private import backends_are_initialized
from mirrax._jax.private import global_state as _distributed
from mirrax._jax.private import make_cpu_client as _make_cpu_client
from mirrax.lazy_modules import LazyModule

if TYPE_CHECKING:
    from jax.extend import backend as _backend
else:
    _backend = LazyModule("jax.extend.backend")


def backend_is_up() -> bool:
    """Returns whether JAX has started a backend, after which devices are fixed."""
    return bool(backends_are_initialized())


def backends() -> list[str]:
    """Starts JAX's backends; returns those of cpu, gpu and tpu that it has."""
    jax.devices()
    return [platform for platform in ("cpu", "gpu", "tpu") if _has_backend(platform)]


def _has_backend(platform: str) -> bool:
    try:
        jax.local_devices(backend=platform)
    except RuntimeError:
        return False
    return True


def is_distributed() -> bool:
    """Returns whether JAX is connected to a coordination service."""
    return jax.distributed.is_initialized()


def set_distributed(client: Any, process_index: int, num_processes: int) -> None:
    """Makes JAX one of several processes, given a connected client.

    Like `jax.distributed.initialize`, but starts no service in this process and
    installs no signal handlers.
    """
    _distributed.client = client
    _distributed.process_id = process_index
    _distributed.num_processes = num_processes


def write_cache_in_every_process() -> None:
    """Makes this process write JAX's persistent compilation cache, too.

    JAX lets only process 0 write, because programs have the same keys everywhere. On
    CPUs each process has keys of its own, and would compile again after each start.
    Call it after the backend has started. JAX reads the number afterwards only to share
    compiled programs and autotuning results between hosts, which it does for GPUs.
    """
    _distributed.process_id = 0


def forget_distributed() -> Any:
    """Disconnects JAX from the other processes at once; returns its client."""
    client = _distributed.client
    _distributed.client = None
    return client


def set_cpu_collectives(collectives: Any) -> None:
    """Makes the CPU backend use `collectives` between processes when it starts."""
    _backend.register_backend_factory(
        "cpu",
        functools.partial(_make_cpu_client, collectives),
        priority=0,
        fail_quietly=False,
    )
