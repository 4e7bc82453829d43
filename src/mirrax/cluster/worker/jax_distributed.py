"""Initializes JAX's distributed runtime through the tunnel."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mirrax._jax.distributed import set_cpu_collectives, set_distributed
from mirrax._jax.jaxlib import make_coordination_client, make_gloo

_HOST = "127.0.0.1"


def connect_jax(
    port: int, process_index: int, num_processes: int, own_address: str
) -> None:
    """Connects JAX to its coordination service at a local port.

    Args:
        own_address: This machine's address for the others. Gloo's default is what the
            host name resolves to here, often 127.0.1.1.
    """
    client = make_coordination_client(f"{_HOST}:{port}", process_index)
    with _no_proxy():
        client.connect()
    set_distributed(client, process_index, num_processes)
    if jax.config.jax_cpu_collectives_implementation != "mpi":  # type: ignore[attr-defined]
        set_cpu_collectives(make_gloo(client, own_address))


def warm_up() -> None:
    """Starts the backend and runs one all-reduce over all devices.

    Connection errors appear here, at start-up. Later programs reuse the connections.
    """
    mesh = Mesh(np.asarray(jax.devices()), ("device",))
    sharding = NamedSharding(mesh, PartitionSpec("device"))
    ones = jax.make_array_from_callback(
        (mesh.size,), sharding, lambda _: np.ones((1,), np.float32)
    )
    add_up = jax.shard_map(
        lambda part: jax.lax.psum(part, "device"),
        mesh=mesh,
        in_specs=PartitionSpec("device"),
        out_specs=PartitionSpec(),
    )
    total = jax.jit(add_up)(ones).addressable_data(0).item()
    assert total == mesh.size, f"{mesh.size} devices, {total} answered."


@contextlib.contextmanager
def _no_proxy() -> Iterator[None]:
    """Keeps gRPC from using a proxy for this machine, in the `with` block."""
    saved = os.environ.get("no_proxy")
    os.environ["no_proxy"] = f"{saved},{_HOST}" if saved else _HOST
    try:
        yield
    finally:
        if saved is None:
            del os.environ["no_proxy"]
        else:
            os.environ["no_proxy"] = saved
