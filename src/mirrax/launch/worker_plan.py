"""Which workers a launcher starts, and their environment variables."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
import socket
from collections.abc import Mapping, Sequence

from mirrax.cluster.membership import Worker, join_address, split_address
from mirrax.cluster.net.listener import find_reachable_host
from mirrax.devices import cpu_threads
from mirrax.errors import ConfigurationError

# Read by the usual numerical libraries.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclasses.dataclass(frozen=True)
class LaunchPlan:
    """The workers of a job, and which of them are started here.

    Args:
        local: The indices of those started here.
        coordinator: The coordinator's host and port, as seen from here; 0 for any port.
    """

    workers: tuple[Worker, ...]
    local: tuple[int, ...]
    coordinator: tuple[str, int]
    token: str

    @property
    def hosts_coordinator(self) -> bool:
        return 0 in self.local


def plan_local(num_workers: int) -> LaunchPlan:
    """Returns a plan for workers on this machine only."""
    _check_count(num_workers)
    ports = find_free_ports(num_workers)
    return LaunchPlan(
        workers=tuple(
            Worker("worker", index, f"127.0.0.1:{port}")
            for index, port in enumerate(ports)
        ),
        local=tuple(range(num_workers)),
        coordinator=("127.0.0.1", 0),
        token=secrets.token_hex(16),
    )


def plan_hosts(
    hosts: Sequence[str], host_index: int, num_workers: int, token: str = ""
) -> LaunchPlan:
    """Returns a plan for `num_workers` workers on each of several machines.

    Args:
        hosts: The address of each machine, with a free port. The first one's port is
            the coordinator's; workers use the ports after it.

    >>> [worker.address for worker in plan_hosts(["a:10", "b:10"], 0, 1).workers]
    ['a:11', 'b:11']
    """
    _check_count(num_workers)
    if not 0 <= host_index < len(hosts):
        raise ConfigurationError(
            f"--host-index must be from 0 to {len(hosts) - 1}, one for each of "
            f"--hosts. Received: {host_index}."
        )
    addresses = [split_address(host) for host in hosts]
    if len(set(addresses)) < len(addresses):
        raise ConfigurationError(
            f"--hosts must name each machine once. Received: {','.join(hosts)}."
        )
    workers = [
        Worker(
            "worker", index * num_workers + rank, join_address(host, port + 1 + rank)
        )
        for index, (host, port) in enumerate(addresses)
        for rank in range(num_workers)
    ]
    first = host_index * num_workers
    coordinator = addresses[0]
    if host_index == 0:
        coordinator = find_own_host(hosts), coordinator[1]
    return LaunchPlan(
        workers=tuple(workers),
        local=tuple(range(first, first + num_workers)),
        coordinator=coordinator,
        token=token,
    )


def find_own_host(hosts: Sequence[str]) -> str:
    """Returns the host where the first machine listens, as seen from itself."""
    own, *others = (split_address(host)[0] for host in hosts)
    return find_reachable_host(own, [host for host in others if host != own])


def make_environment(
    plan: LaunchPlan,
    worker_index: int,
    coordinator_port: int,
    inherited: Mapping[str, str],
    devices_per_worker: int | None = None,
) -> dict[str, str]:
    """Returns the environment variables of one worker."""
    worker = plan.workers[worker_index]
    cluster = {"worker": [worker.address for worker in plan.workers]}
    environment = {
        **inherited,
        "TF_CONFIG": json.dumps(
            {"cluster": cluster, "task": {"type": worker.type, "index": worker.index}}
        ),
        # Read by many libraries and scripts.
        "RANK": str(worker_index),
        "WORLD_SIZE": str(len(plan.workers)),
        "LOCAL_RANK": str(plan.local.index(worker_index)),
        "LOCAL_WORLD_SIZE": str(len(plan.local)),
        "MIRRAX_COORDINATOR": join_address(plan.coordinator[0], coordinator_port),
        "MIRRAX_TOKEN": plan.token,
        # Otherwise the last lines of a killed worker are lost.
        "PYTHONUNBUFFERED": "1",
    }
    if devices_per_worker is not None:
        environment["JAX_NUM_CPU_DEVICES"] = str(devices_per_worker)
        environment["MIRRAX_DEVICES_PER_WORKER"] = str(devices_per_worker)
    share = max(1, cpu_threads.count_cores() // len(plan.local))
    for name in _THREAD_VARIABLES:
        environment.setdefault(name, str(share))
    threads = cpu_threads.required_threads(_count_devices(environment), share)
    environment.setdefault(cpu_threads.VARIABLE, str(threads))
    return environment


def find_free_ports(count: int) -> list[int]:
    """Returns distinct ports that are free at the moment."""
    address = ("127.0.0.1", 0)
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(address)) for _ in range(count)
        ]
        return [int(sock.getsockname()[1]) for sock in sockets]


def _count_devices(environment: Mapping[str, str]) -> int:
    configured = environment.get("JAX_NUM_CPU_DEVICES", "")
    return cpu_threads.count_requested(
        num_cpu_devices=int(configured) if configured.isdecimal() else -1,
        xla_flags=environment.get("XLA_FLAGS", ""),
    )


def _check_count(num_workers: int) -> None:
    if num_workers < 1:
        raise ConfigurationError(
            f"The number of workers must be 1 or more. Received: {num_workers}."
        )
