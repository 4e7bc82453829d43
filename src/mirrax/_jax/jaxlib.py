"""The private names of jaxlib that Mirrax uses, each with the reason.

All of them exist in jaxlib 0.9.2 and 0.10.2, and a test counts them with those of
`private`. This module imports no jax, so that the coordinator process, which needs only
this, starts in a quarter of the time.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

try:
    from jaxlib import _jax

    # A coordination service and clients with our timeouts; `jax.distributed.initialize`
    # starts the service inside a worker and waits for all workers at the end.
    _get_service = _jax.get_distributed_runtime_service
    _get_client = _jax.get_distributed_runtime_client
    # Collectives that listen on a given address; JAX takes that of the hostname.
    _make_gloo = _jax.make_gloo_tcp_collectives
    # A copy of a NumPy array on a device, in a tenth of the time of `jax.device_put`.
    _put = _jax.batched_device_put
    _COPY = _jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
except (ImportError, AttributeError) as error:
    raise ImportError(
        "Mirrax was tested with jaxlib 0.9.2 to 0.10.2 and does not know this version. "
        f"Received: jaxlib {metadata.version('jaxlib')}. Install 'jax>=0.9.2,<0.11'."
    ) from error

# Mirrax watches the workers itself; JAX would end a process whose heartbeat is late.
_NEVER = 10_000_000


def start_coordination_service(address: str, num_processes: int) -> Any:
    """Starts JAX's coordination service, which runs until the result is deleted."""
    return _get_service(
        address,
        num_processes,
        heartbeat_timeout=_NEVER,
        cluster_register_timeout=_NEVER,
        shutdown_timeout=1,
        recoverable=True,
    )


def make_coordination_client(address: str, process_index: int) -> Any:
    """Returns a client of the coordination service, which is not connected yet."""
    return _get_client(
        address,
        process_index,
        init_timeout=_NEVER,
        heartbeat_timeout=_NEVER,
        shutdown_timeout=1,
        # A shutdown would wait for all other workers.
        shutdown_on_destruction=False,
        use_compression=True,
    )


def make_gloo(client: Any, host: str) -> Any:
    """Returns Gloo collectives that listen on `host`, an address of this machine."""
    return _make_gloo(distributed_client=client, hostname=host)


def put_copy(aval: Any, sharding: Any, value: Any, device: Any) -> Any:
    """Returns an uncommitted copy of the NumPy array `value` on `device`."""
    return _put(
        aval, sharding, [value], [device], committed=False, host_buffer_semantics=_COPY
    )
