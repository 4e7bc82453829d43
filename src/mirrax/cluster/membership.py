"""The workers of a cluster, in order, and which of them this process is."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence

from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.errors import ConfigurationError

# In this order. Without them, the first worker is the chief.
CHIEFS = ("chief", "master")
WORKER = "worker"
# Jobs whose tasks do not train together with the workers.
NON_TRAINING_JOBS = ("evaluator", "ps")

_MAX_LISTED = 64

# A label has at most 63 characters, the whole name 253.
_LABEL = r"[^\s:/.\[\]\x00-\x1f]{1,63}"
_ADDRESS = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|"
    rf"(?=[^:]{{1,253}}:){_LABEL}(?:\.{_LABEL})*\.?):(?P<port>[0-9]{{1,5}})"
)


@dataclasses.dataclass(frozen=True)
class Worker:
    """One process of a job.

    >>> Worker("worker", 1, "host:2222").name
    'worker 1'
    """

    type: str
    index: int
    address: str

    @property
    def name(self) -> str:
        return f"{self.type} {self.index}"

    @property
    def host(self) -> str:
        return split_address(self.address)[0]

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


@dataclasses.dataclass(frozen=True)
class Membership:
    """The workers of a job and which of them this process is."""

    workers: tuple[Worker, ...]
    worker_index: int

    @property
    def me(self) -> Worker:
        return self.workers[self.worker_index]


def summarize_workers(workers: Sequence[Worker]) -> dict[str, str] | str:
    """Returns the addresses by name; of many workers only a digest.

    Every worker sends this when it joins, so a list of all would grow with the square
    of their number.

    >>> summarize_workers([Worker("worker", 0, "host:2222")])
    {'worker 0': 'host:2222'}
    """
    found = {worker.name: worker.address for worker in workers}
    if len(found) <= _MAX_LISTED:
        return found
    digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()
    return f"{len(found)} workers with the digest {digest[:16]}"


def split_address(address: str) -> tuple[str, int]:
    """Returns host and port; an IPv6 host loses its brackets.

    >>> split_address("[::1]:2222")
    ('::1', 2222)
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ConfigurationError(
            "An address is 'host:port' with a port from 1 to 65535. "
            f"Received: {address!r}. Use a form such as 'worker-0.example:2222'."
        )
    return match["host"].strip("[]"), int(match["port"])


def join_address(host: str, port: int) -> str:
    """Returns host and port as one address, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def find_membership(
    spec: ClusterSpec, task_type: str | None, task_id: int | None
) -> Membership | None:
    """Returns the workers of this process's job, None if it trains alone.

    A cluster of several workers must say which of them this process is, so that one
    job never runs as several jobs of one worker.
    """
    workers = list_workers(spec)
    for worker in workers:
        split_address(worker.address)
    if task_type == "evaluator" or (len(workers) <= 1 and task_type not in spec.jobs):
        return None
    if task_type in NON_TRAINING_JOBS:
        raise ConfigurationError(
            "A parameter server has no part in MultiWorkerMirroredStrategy. "
            f"Received: task type {task_type!r}, index {task_id!r}. Do not start this "
            "task; its entry in the cluster can stay."
        )
    if task_type is None or task_id is None:
        raise ConfigurationError(
            f"A cluster of {len(workers)} workers must say which of them this process "
            f"is. Received: task type {task_type!r}, index {task_id!r}. Set `task` in "
            "TF_CONFIG, or task_type and task_id of the resolver, to one of "
            f"{', '.join(worker.name for worker in workers)}."
        )
    for index, worker in enumerate(workers):
        if (worker.type, worker.index) == (task_type, task_id):
            return Membership(workers, index) if len(workers) > 1 else None
    raise ConfigurationError(
        "This process must be one of the workers of its cluster. "
        f"Received: task type {task_type!r}, index {task_id!r}. The workers are "
        f"{', '.join(map(str, workers)) or 'none'}."
    )


def list_workers(spec: ClusterSpec) -> tuple[Worker, ...]:
    """Returns the workers of a cluster, the chief first.

    >>> spec = ClusterSpec({"worker": ["a:1"], "chief": ["b:1"]})
    >>> [worker.name for worker in list_workers(spec)]
    ['chief 0', 'worker 0']
    """
    return tuple(
        Worker(job, index, spec.task_address(job, index))
        for job in (*CHIEFS, WORKER)
        if job in spec.jobs
        for index in spec.task_indices(job)
    )
