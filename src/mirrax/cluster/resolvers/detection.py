"""Finds the cluster of this process in the environment that its launcher has set."""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import zlib
from collections.abc import Callable, Mapping

from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.cluster.membership import join_address, list_workers, split_address
from mirrax.cluster.net.listener import is_ip_address
from mirrax.cluster.resolvers.base import ClusterResolver
from mirrax.cluster.resolvers.simple import SimpleClusterResolver
from mirrax.cluster.resolvers.slurm import SlurmClusterResolver, read_number
from mirrax.cluster.resolvers.tf_config import TFConfigClusterResolver
from mirrax.errors import ConfigurationError

Environment = Mapping[str, str]

UNKNOWN_HOST = "host-of-rank-"
"""In place of a host that the launcher does not tell; only the first one is needed."""

_ADDRESS = "JAX_COORDINATOR_ADDRESS"
_PORT = "JAX_COORDINATOR_PORT"
# Above those that Linux gives to outgoing connections. The rest is left for the
# workers of one machine, which count up.
_FIRST_PORT, _NUM_PORTS = 61440, 3072
# What tells a job from others. The id of torchrun is "none" if the user gives none.
_JOB = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PMIX_NAMESPACE",
    "TORCHELASTIC_RUN_ID",
    "MASTER_PORT",
)


@dataclasses.dataclass(frozen=True)
class Launcher:
    """A program that starts the processes of a job and numbers them.

    Args:
        index: The variable with the index of this process.
        count: The variable with the number of processes.
        find_hosts: Returns the hosts of the processes; the first one may have a port.
            Only the first one if the others are not known, none if it is not.
        special_marker: A variable that it always sets, if `index` is not one.
        is_shared: Whether others set its variables, too: they then name a launcher
            only if all of them are there, for several processes.
    """

    name: str
    index: str
    count: str
    find_hosts: Callable[[Environment], list[str]] = lambda _: []
    special_marker: str = ""
    is_shared: bool = False

    @property
    def marker(self) -> str:
        return self.special_marker or self.index

    def applies(self, environment: Environment) -> bool:
        """Returns whether it has started this process."""
        index, count = environment.get(self.index), environment.get(self.count)
        if self.is_shared and not (index and count not in {None, "", "1"}):
            return False
        # srun may set PMI's variables too, scripts those of PyTorch; its own say more.
        num_tasks = environment.get("SLURM_STEP_NUM_TASKS")
        may_be_srun = self.is_shared or self.index == "PMI_RANK"
        is_srun = may_be_srun and num_tasks == count
        return self.marker in environment and not is_srun

    def read(self, variable: str, environment: Environment) -> int:
        text = environment.get(variable, "")
        if not text.isdecimal():
            raise ConfigurationError(
                f"{self.name} must give each worker its index in {self.index} and the "
                f"number of workers in {self.count}. Received: {variable}={text!r}. "
                f"Set {variable} for all workers."
            )
        return int(text)


def find_cluster_resolver() -> ClusterResolver:
    """Returns the resolver for the launcher or scheduler that started this process.

    It is the first one that applies of: TF_CONFIG, JAX's variables, a kubeflow JAXJob,
    torchrun, Open MPI, another MPI, another launcher for PyTorch, Slurm, an indexed Job
    of Kubernetes. Without any the resolver has no workers, and the process trains
    alone.

    >>> find_cluster_resolver().cluster_spec()
    ClusterSpec({})
    """
    config = TFConfigClusterResolver()
    launcher = None if config.cluster_spec() else find_launcher()
    if launcher is None:
        return config
    if launcher is _SLURM:
        return _resolve_slurm(os.environ)
    return _resolve(launcher, os.environ)


def find_launcher() -> Launcher | None:
    """Returns the launcher of this process, if any; TF_CONFIG is not one."""
    return next((each for each in LAUNCHERS if each.applies(os.environ)), None)


def count_tasks() -> int:
    """Returns how many processes were started together with this one, it included."""
    config = TFConfigClusterResolver()
    if config.task_type == "evaluator":
        return 1
    cluster = config.cluster_spec()
    launcher = find_launcher()
    if cluster or launcher is None:
        return len(list_workers(cluster))
    text = os.environ.get(launcher.count, "")
    return int(text) if text.isdecimal() else 1


def _resolve(launcher: Launcher, environment: Environment) -> ClusterResolver:
    count = launcher.read(launcher.count, environment)
    index = launcher.read(launcher.index, environment)
    given = environment.get(_ADDRESS)
    known = [given] if given else launcher.find_hosts(environment)
    if count > 1 and not known:
        raise ConfigurationError(
            f"{launcher.name} must say where the first of {count} workers runs. "
            f"Received: no {_ADDRESS}. Set it to host:port of worker 0, for all "
            "workers."
        )
    first, port = _split(known[0] if known else "localhost", environment)
    others = known[1:] or [f"{UNKNOWN_HOST}{i}" for i in range(1, count)]
    hosts = [first, *others][:count]
    addresses = [
        join_address(host, port + hosts[:i].count(host)) for i, host in enumerate(hosts)
    ]
    return SimpleClusterResolver(
        ClusterSpec({"worker": addresses}), task_type="worker", task_id=index
    )


def _split(address: str, environment: Environment) -> tuple[str, int]:
    """Returns host and port of an address that may lack the port."""
    host = address.strip("[]")
    if ":" in address and not is_ip_address(host):
        return split_address(address)
    return host, _choose_port(environment)


def _choose_port(environment: Environment) -> int:
    """Returns a port that all workers of a job know, and other jobs seldom have."""
    if environment.get(_PORT):
        return read_number(_PORT, environment)
    job = ".".join(environment.get(name, "") for name in _JOB)
    return _FIRST_PORT + zlib.crc32(job.encode()) % _NUM_PORTS


def _find_jax_job(environment: Environment) -> list[str]:
    host = environment["COORDINATOR_ADDRESS"]
    port = environment.get("COORDINATOR_PORT")
    return [f"{host}:{port}" if port else host]


def _find_master(environment: Environment) -> list[str]:
    host = environment.get("MASTER_ADDR")
    if not host:
        raise ConfigurationError(
            "Workers with RANK and WORLD_SIZE must know where rank 0 runs. Received: "
            f"RANK={environment['RANK']}, WORLD_SIZE={environment['WORLD_SIZE']} and "
            "no MASTER_ADDR. Set MASTER_ADDR and MASTER_PORT to host and port of rank "
            "0, for all workers; or unset WORLD_SIZE, to train alone."
        )
    if not environment.get("MASTER_PORT"):
        return [host]
    return [join_address(host, read_number("MASTER_PORT", environment))]


def _find_open_mpi(environment: Environment) -> list[str]:
    local = _list_local(
        environment, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"
    )
    if local:
        return local
    # Both name the machine of mpirun, where rank 0 runs unless a host file says
    # otherwise. Version 5: prterun-node01-12345@1. Version 4:
    # 1531576320.0;tcp://10.0.0.1,10.1.0.1:34911.
    found = re.match(r"prterun-(.+)-\d+@\d+$", environment.get("PMIX_NAMESPACE", ""))
    uri = environment.get("OMPI_MCA_orte_hnp_uri", "")
    found = found or re.search(r"tcp://([^,:]+)", uri)
    return [found[1]] if found else []


def _find_pmi(environment: Environment) -> list[str]:
    return _list_local(environment, "PMI_SIZE", "MPI_LOCALNRANKS")


def _list_local(environment: Environment, size: str, local_size: str) -> list[str]:
    """Returns this machine for each process if all run here, else nothing."""
    is_local = environment[size] == environment.get(local_size)
    return ["127.0.0.1"] * int(environment[size]) if is_local else []


def _find_pods(environment: Environment) -> list[str]:
    index, count = environment["JOB_COMPLETION_INDEX"], environment["JAX_NUM_PROCESSES"]
    return list_pods(socket.getfqdn(), int(index), int(count))


def list_pods(name: str, index: int, count: int) -> list[str]:
    """Returns the host names of the pods of an indexed Job.

    Args:
        name: The name of this pod: job, index, headless service and domain.

    >>> list_pods("train-1.workers.default.svc.cluster.local", 1, 2)[0]
    'train-0.workers.default.svc.cluster.local'
    """
    host, _, domain = name.partition(".")
    if count > 1 and not (host.endswith(f"-{index}") and domain):
        raise ConfigurationError(
            "The pods of an indexed Job find each other through a headless Service, "
            f"which gives them names such as train-{index}.workers. Received: "
            f"{name!r}. Add the Service, and its name as `subdomain` of the pods; or "
            f"set {_ADDRESS}=host:port for all workers."
        )
    job = host.removesuffix(f"-{index}")
    return [f"{job}-{i}.{domain}" for i in range(count)]


def _resolve_slurm(environment: Environment) -> ClusterResolver:
    tasks, nodes, started = (
        read_number(name, environment) if environment.get(name) else 1
        for name in ("SLURM_NTASKS", "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_TASKS")
    )
    wanted = max(tasks, nodes)
    if wanted > started:
        raise ConfigurationError(
            f"Slurm has {wanted} tasks for this job, and srun must start the workers. "
            "Received: a process that was not started by srun and would train alone. "
            "Use `srun python train.py`; or MirroredStrategy, to train alone."
        )
    if started == 1:
        return TFConfigClusterResolver()
    return SlurmClusterResolver(port_base=_choose_port(environment))


_SLURM = Launcher(
    "Slurm", "SLURM_PROCID", "SLURM_NTASKS", special_marker="SLURM_JOB_ID"
)

LAUNCHERS = (
    Launcher("JAX", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    Launcher(
        "A kubeflow JAXJob",
        "PROCESS_ID",
        "NUM_PROCESSES",
        _find_jax_job,
        special_marker="COORDINATOR_ADDRESS",
    ),
    Launcher(
        "torchrun",
        "RANK",
        "WORLD_SIZE",
        lambda environment: [environment["MASTER_ADDR"]],
        special_marker="TORCHELASTIC_RUN_ID",
    ),
    Launcher(
        "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", _find_open_mpi
    ),
    Launcher("MPI", "PMI_RANK", "PMI_SIZE", _find_pmi),
    Launcher(
        "A launcher for PyTorch",
        "RANK",
        "WORLD_SIZE",
        _find_master,
        special_marker="WORLD_SIZE",
        is_shared=True,
    ),
    _SLURM,
    Launcher(
        "An indexed Job of Kubernetes",
        "JOB_COMPLETION_INDEX",
        "JAX_NUM_PROCESSES",
        _find_pods,
    ),
)
"""In the order in which they are asked: first those that others start."""
