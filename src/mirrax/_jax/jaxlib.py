"""The private names of jaxlib that Mirrax needs, and nothing else.

Everything here was tested with jaxlib 0.10.2. It is apart from `jax_internals` because
the coordinator needs no more of JAX than this, and starts in a quarter of the time.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

try:
    from jaxlib import _jax

    _get_service = _jax.get_distributed_runtime_service
    _get_client = _jax.get_distributed_runtime_client
    _make_gloo = _jax.make_gloo_tcp_collectives
    _put = _jax.batched_device_put
    _COPY = _jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
except (ImportError, AttributeError) as error:
    raise ImportError(
        "Mirrax was tested with jaxlib 0.10.2 and does not know this version. "
        f"Received: jaxlib {metadata.version('jaxlib')}. Install 'jax>=0.10.2,<0.11'."
    ) from error

# Mirrax watches the workers itself, and JAX ends a process that it takes for dead.
_NEVER = 10_000_000


def start_coordination_service(address: str, num_processes: int) -> Any:
    """Starts JAX's coordination service; it runs until the result is dropped."""
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
        # The shutdown waits for all others, and Mirrax has its own end.
        shutdown_on_destruction=False,
        use_compression=True,
    )


def make_gloo(client: Any, host: str) -> Any:
    """Returns collectives between CPUs that listen on one address of this machine."""
    return _make_gloo(distributed_client=client, hostname=host)


def put_copy(aval: Any, sharding: Any, value: Any, device: Any) -> Any:
    """Returns a copy of NumPy's `value` as an array on `device`, not tied to it."""
    return _put(
        aval,
        sharding,
        [value],
        [device],
        committed=False,
        host_buffer_semantics=_COPY,
    )
