"""Several processes: JAX's connection to the others, and its backends."""

from __future__ import annotations

import functools
from typing import Any

from mirrax._jax.private import backends as backends
from mirrax._jax.private import backends_are_initialized
from mirrax._jax.private import distributed as _distributed
from mirrax._jax.private import make_cpu_client as _make_cpu_client
from mirrax._jax.private import register_backend as _register_backend


def backend_is_up() -> bool:
    """Returns whether JAX has started a backend, after which devices are fixed."""
    return bool(backends_are_initialized())


def is_distributed() -> bool:
    """Returns whether JAX is connected to a coordination service."""
    return _distributed.client is not None


def set_distributed(client: Any, process_index: int, num_processes: int) -> None:
    """Makes JAX one of several processes, which meet through a connected client.

    This is what `jax.distributed.initialize` does, except that it starts no service in
    this process and takes no signal handlers.
    """
    _distributed.client = client
    _distributed.process_id = process_index
    _distributed.num_processes = num_processes


def forget_distributed() -> Any:
    """Makes JAX leave the others without waiting for them; returns its client."""
    client = _distributed.client
    _distributed.client = None
    return client


def set_cpu_collectives(collectives: Any) -> None:
    """Makes the CPU backend, when it starts, move data between processes with these."""
    _register_backend(
        "cpu",
        functools.partial(_make_cpu_client, collectives),
        priority=0,
        fail_quietly=False,
    )
