"""Initializes JAX's distributed runtime through the tunnel."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mirrax._jax.distributed import (
    set_cpu_collectives,
    set_distributed,
    write_cache_in_every_process,
)
from mirrax._jax.jaxlib import make_coordination_client, make_gloo


def connect_jax(
    service: str, process_index: int, num_processes: int, own_address: str
) -> None:
    """Connects JAX to its coordination service.

    Args:
        service: The address of the service, such as "unix:/path".
        own_address: This machine's address for the others. Gloo's default is what the
            host name resolves to here, often 127.0.1.1.
    """
    client = make_coordination_client(service, process_index)
    client.connect()
    set_distributed(client, process_index, num_processes)
    if jax.config.jax_cpu_collectives_implementation != "mpi":  # type: ignore[attr-defined]
        set_cpu_collectives(make_gloo(client, own_address))


def warm_up() -> None:
    """Starts the backend and runs one all-reduce over all devices.

    Connection errors appear here, at start-up. Later programs reuse the connections.
    """
    devices = jax.devices()
    if devices[0].platform == "cpu":
        write_cache_in_every_process()
    mesh = Mesh(np.asarray(devices), ("device",))
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
