"""Cluster resolver for Slurm job steps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping

from typing_extensions import override

from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.cluster.resolvers.base import ClusterResolver
from mirrax.errors import ConfigurationError

# node[01-03,7],login -> node[01-03,7] and login
_HOST_GROUP = re.compile(r"(?:[^,\[\]]|\[[^\]\[]*\])+")
_HOSTS = re.compile(rf"{_HOST_GROUP.pattern}(?:,{_HOST_GROUP.pattern})*")
_BRACKET = re.compile(r"\[([^\]]*)\]")
# 4(x2),1 -> 4, 4, 1
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


class SlurmClusterResolver(ClusterResolver):
    """Reads the cluster from the environment variables of a Slurm job step.

    Start the script with `srun`: each task becomes a worker. Reads SLURM_PROCID,
    SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE.

    Args:
        jobs: The number of tasks of each job; by default all tasks are workers.
        port_base: The port of the first task on a node; the next ones count up.
        gpus_per_node: GPUs of a node; by default as many as are visible in
            CUDA_VISIBLE_DEVICES, or else as Slurm or nvidia-smi counts.
        gpus_per_task: GPUs of a task; by default an equal share. If fewer are visible
            than the node has tasks, Slurm has divided them already.
        tasks_per_node: Tasks on each node: a number for all, or one for each host name.
            By default Slurm's numbers.
        auto_set_gpu: Whether each task sees only its own GPUs.
        rpc_layer: The protocol prefix of addresses.
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        port_base: int = 8888,
        gpus_per_node: int | None = None,
        gpus_per_task: int | None = None,
        tasks_per_node: int | Mapping[str, int] | None = None,
        auto_set_gpu: bool = True,
        rpc_layer: str | None = "grpc",
    ) -> None:
        self._rank = read_number("SLURM_PROCID", os.environ)
        self._nodes = _find_nodes(tasks_per_node)
        num_tasks = sum(self._nodes.values())
        self._jobs = dict(
            jobs or {"worker": read_number("SLURM_STEP_NUM_TASKS", os.environ)}
        )
        if sum(self._jobs.values()) != num_tasks:
            raise ConfigurationError(
                "The jobs must have as many tasks as Slurm has started. Received: "
                f"{self._jobs} for {num_tasks} tasks on {self._nodes}. Change `jobs`, "
                "or srun's --ntasks."
            )
        self._auto_set_gpu = auto_set_gpu
        self._share_gpus(gpus_per_node, gpus_per_task)
        self._port_base = port_base
        self.rpc_layer = rpc_layer
        self._task_type, self._task_id = self._find_task()

    @override
    def cluster_spec(self) -> ClusterSpec:
        addresses = [
            f"{host}:{self._port_base + offset}"
            for host, num_tasks in self._nodes.items()
            for offset in range(num_tasks)
        ]
        if self._auto_set_gpu and self._gpus_per_task:
            offset = int(addresses[self._rank].rpartition(":")[2]) - self._port_base
            first = offset * self._gpus_per_task
            gpus = self._visible_gpus[first : first + self._gpus_per_task]
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
            # It divides the GPUs that are visible, so once is enough.
            self._auto_set_gpu = False
        return ClusterSpec(
            {job: addresses[start:stop] for job, start, stop in self._ranges()}
        )

    def get_task_info(self) -> tuple[str | None, int | None]:
        """Returns the job of this process and its index in it."""
        return self.task_type, self.task_id

    @override
    def _accelerators(self) -> dict[str, int]:
        return {"GPU": self._gpus_per_task}

    def _ranges(self) -> Iterator[tuple[str, int, int]]:
        start = 0
        for job, num_tasks in sorted(self._jobs.items()):
            yield job, start, start + num_tasks
            start += num_tasks

    def _share_gpus(self, per_node: int | None, per_task: int | None) -> None:
        num_tasks = max(self._nodes.values())
        visible = _list_visible_gpus()
        if per_node is None:
            per_node = _count_gpus() if visible is None else len(visible)
            if visible and per_node < num_tasks:
                # Slurm has divided them: these are all for this task.
                num_tasks, per_task, self._auto_set_gpu = 1, per_node, False
        if per_task is None:
            per_task = per_node // num_tasks
        if per_task * num_tasks > per_node:
            raise ConfigurationError(
                "The tasks of a node cannot have more GPUs than the node. Received: "
                f"{num_tasks} tasks x {per_task} GPUs, {per_node} per node."
            )
        self._visible_gpus = visible or [str(gpu) for gpu in range(per_node)]
        self._gpus_per_task = per_task

    def _find_task(self) -> tuple[str, int]:
        for job, start, stop in self._ranges():
            if start <= self._rank < stop:
                return job, self._rank - start
        raise ConfigurationError(
            f"SLURM_PROCID must be below the number of tasks. Received: {self._rank} "
            f"for {self._jobs}. Start the script with srun."
        )


def expand_hosts(text: str) -> list[str]:
    """Expands a host list in Slurm's short form.

    >>> expand_hosts("n[01-02,4],login")
    ['n01', 'n02', 'n4', 'login']
    """
    if not _HOSTS.fullmatch(text):
        raise ConfigurationError(
            "A list of hosts is written as 'n[01-02,4],login'. "
            f"Received: {text!r} in SLURM_STEP_NODELIST."
        )
    return [name for group in _HOST_GROUP.findall(text) for name in _expand(group)]


def expand_tasks(text: str) -> list[int]:
    """Expands tasks per node in Slurm's short form.

    >>> expand_tasks("3(x2),1")
    [3, 3, 1]
    """
    counts: list[int] = []
    for part in text.split(","):
        match = _TASKS.fullmatch(part.strip())
        if match is None:
            raise ConfigurationError(
                "Tasks per node are numbers such as '3(x2),1'. "
                f"Received: {text!r} in SLURM_STEP_TASKS_PER_NODE."
            )
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _expand(group: str) -> list[str]:
    match = _BRACKET.search(group)
    if match is None:
        return [group]
    names = []
    for part in match[1].split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            raise ConfigurationError(
                "A range of hosts is written as '01-02'. "
                f"Received: {part!r} in SLURM_STEP_NODELIST."
            )
        for number in range(int(first), int(last or first) + 1):
            middle = str(number).zfill(len(first))
            names += _expand(group[: match.start()] + middle + group[match.end() :])
    return names


def _find_nodes(tasks_per_node: int | Mapping[str, int] | None) -> dict[str, int]:
    if isinstance(tasks_per_node, Mapping):
        return dict(tasks_per_node)
    hosts = expand_hosts(_read("SLURM_STEP_NODELIST", os.environ))
    if tasks_per_node is not None:
        return dict.fromkeys(hosts, tasks_per_node)
    counts = expand_tasks(_read("SLURM_STEP_TASKS_PER_NODE", os.environ))
    if len(counts) != len(hosts):
        raise ConfigurationError(
            "Slurm must give the number of tasks of each host. Received: "
            f"{hosts} and {counts}. Pass tasks_per_node."
        )
    return dict(zip(hosts, counts))


def _list_visible_gpus() -> list[str] | None:
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if text is None else [gpu for gpu in text.split(",") if gpu]


def _count_gpus() -> int:
    if os.environ.get("SLURM_GPUS_ON_NODE"):
        return read_number("SLURM_GPUS_ON_NODE", os.environ)
    if shutil.which("nvidia-smi") is None:
        return 0
    command = ["nvidia-smi", "--list-gpus"]
    listed = subprocess.run(
        command, capture_output=True, check=False, text=True, timeout=60
    )
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


def read_number(variable: str, environment: Mapping[str, str]) -> int:
    """Returns the number in an environment variable."""
    text = _read(variable, environment)
    if not text.isdecimal():
        raise ConfigurationError(
            f"{variable} must be a number. Received: {text!r}. Let Slurm set it, or "
            "correct it for all workers."
        )
    return int(text)


def _read(variable: str, environment: Mapping[str, str]) -> str:
    if variable not in environment:
        raise ConfigurationError(
            f"{variable} not found in environment. SlurmClusterResolver works inside "
            "of a Slurm job step. Start the script with srun, or use another resolver."
        )
    return environment[variable]
