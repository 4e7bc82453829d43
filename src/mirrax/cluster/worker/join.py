"""Joins the job of several workers: connects to the coordinator, then JAX."""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mirrax._jax.distributed import (
    backend_is_up,
    is_distributed,
    set_cpu_collectives,
    set_distributed,
    write_cache_in_every_process,
)
from mirrax._jax.jaxlib import make_coordination_client, make_gloo
from mirrax.cluster.coordinator.process import Coordinator
from mirrax.cluster.job_options import JobOptions, read_options
from mirrax.cluster.membership import (
    Membership,
    find_membership,
    join_address,
    split_address,
    summarize_workers,
)
from mirrax.cluster.net.handshake import derive_key
from mirrax.cluster.net.listener import find_reachable_host
from mirrax.cluster.net.tunnel import serve_client
from mirrax.cluster.resolvers.base import ClusterResolver
from mirrax.cluster.worker import exit, gloo
from mirrax.cluster.worker.coordinator_client import CoordinatorClient, connect
from mirrax.cluster.worker.job import Job
from mirrax.devices import cpu_memory, cpu_threads
from mirrax.errors import ConfigurationError

_TUNNEL_SECONDS = 30.0
# JAX can be connected once per process, so there is one job.
_lock = threading.Lock()
_started: tuple[Membership, Job] | None = None


def join_job(
    resolver: ClusterResolver, *, options: JobOptions | None = None
) -> Job | None:
    """Joins this process's job and waits for all workers; None if it trains alone.

    Later calls for the same cluster return the same job.

    Args:
        options: Timeouts and addresses; by default from the environment.
    """
    global _started  # noqa: PLW0603
    membership = find_membership(
        resolver.cluster_spec(), resolver.task_type, resolver.task_id
    )
    if membership is None:
        return None
    with _lock:
        if _started is None:
            _started = membership, _start(membership, options or read_options())
        known, job = _started
    if known != membership:
        raise ConfigurationError(
            "A process belongs to one job for its whole life. Received: "
            f"{membership.me} of {len(membership.workers)} workers; it already is "
            f"{known.me} of {len(known.workers)}. Use the same cluster for all "
            "strategies, or another process."
        )
    return job


def current_job() -> Job | None:
    """Returns the job that this process has joined, if any."""
    return None if _started is None else _started[1]


def _start(membership: Membership, options: JobOptions) -> Job:
    _check_jax_unused()
    exit.install_exit_code()
    cpu_threads.reserve(cpu_threads.requested_cpu_devices(), in_job=True)
    cpu_memory.keep_freed_memory()
    first = membership.workers[0].address
    key = derive_key(first, options.token, options.secret)
    address = options.coordinator or _find_first_worker(membership)
    hosted = None
    if not options.coordinator and membership.worker_index == 0:
        host, port = split_address(address)
        hosted = Coordinator(
            host=options.bind or host,
            port=port,
            key=key,
            workers=membership.workers,
            options=options,
        )
    body = {
        "worker": membership.worker_index,
        "pid": os.getpid(),
        "hostname": socket.gethostname(),
        "configuration": _describe(membership),
    }
    client = connect(address, key, {**body, "role": "worker"}, options.join_timeout)
    job = Job(
        membership,
        client,
        options.stuck_timeout,
        options.silence_timeout,
        # The coordinator limits the wait for others; connecting may take as long again.
        startup_timeout=2 * options.join_timeout,
    )
    exit.install(job, hosted, options)
    try:
        job.wait_for_start()
        tunnel = connect(address, key, {**body, "role": "tunnel"}, _TUNNEL_SECONDS)
        _connect(job, tunnel, client.local_address)
    except BaseException as error:
        job.fail(error)
        raise
    return job


def _connect(job: Job, tunnel: CoordinatorClient, own_address: str) -> None:
    before = gloo.list_listening_ports()
    index, count = job.worker_index, job.num_workers
    with gloo.filter_gloo_output():
        with serve_client(*tunnel.detach()) as service:
            job.run_in_thread(
                "connecting JAX",
                lambda: connect_jax(service, index, count, own_address),
            )
        job.run_in_thread("connecting the devices", warm_up)
    ports = gloo.list_listening_ports() - before
    all_ports = job.exchange("ports", json.dumps(sorted(ports)).encode())
    peers = {port for text in all_ports for port in json.loads(text)}
    job.heartbeat.on_failure(lambda: gloo.shut_down_connections(ports, peers))
    job.finish_startup()


def connect_jax(
    service: str, process_index: int, num_processes: int, own_address: str
) -> None:
    """Connects JAX to its coordination service.

    Args:
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


def _check_jax_unused() -> None:
    if not backend_is_up() and not is_distributed():
        return
    what = "run an operation" if backend_is_up() else "connected to another job"
    raise ConfigurationError(
        "Several workers must be connected before JAX is first used, and JAX has "
        f"already {what} in this process. Create MultiWorkerMirroredStrategy at the "
        "start of the program, before anything that makes an array or lists devices, "
        "and do not call jax.distributed.initialize: Mirrax does."
    )


def _find_first_worker(membership: Membership) -> str:
    """Returns an address of the first worker that all workers can reach."""
    host, port = split_address(membership.workers[0].address)
    others = [worker.host for worker in membership.workers if worker.host != host]
    return join_address(find_reachable_host(host, others), port)


def _describe(membership: Membership) -> dict[str, Any]:
    """Returns the configuration that must be the same on all workers."""
    return {
        "workers": summarize_workers(membership.workers),
        "jax": jax.__version__,
        "cpu_devices": cpu_threads.requested_cpu_devices(),
        "jax_enable_x64": bool(jax.config.jax_enable_x64),  # type: ignore[attr-defined]
    }
