"""Which cluster a process finds in the environment of its launcher."""

import json
import os
import re
import subprocess
import sys

import pytest

from mirrax import cluster_resolver as resolvers
from mirrax import errors
from mirrax.cluster.resolvers.detection import LAUNCHERS, count_tasks, list_pods
from mirrax.strategy import mirrored_strategy
from tests.free_ports import find_free_ports

TF_CONFIG = json.dumps(
    {
        "cluster": {"worker": ["a:1", "b:1"]},
        "task": {"type": "worker", "index": 1},
    }
)
SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
}
# Hydra starts its own processes with srun, one on each machine.
SLURM_STEP_OF_MPI = {
    **SLURM,
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_NTASKS": "1",
    "SLURM_PROCID": "0",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
}
PMI = {"PMI_RANK": "1", "PMI_SIZE": "2"}
JAX_JOB = {
    "COORDINATOR_ADDRESS": "train-worker-0",
    "COORDINATOR_PORT": "6666",
    "NUM_PROCESSES": "2",
    "PROCESS_ID": "1",
}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "MASTER_ADDR": "n1",
    "MASTER_PORT": "29500",
    "RANK": "1",
    "WORLD_SIZE": "2",
}
PYTORCH = {
    "MASTER_ADDR": "job-master-0",
    "MASTER_PORT": "23456",
    "RANK": "1",
    "WORLD_SIZE": "2",
}
JAX = {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2"}
POD = {"JOB_COMPLETION_INDEX": "1", "JAX_NUM_PROCESSES": "2"}


@pytest.fixture
def find(monkeypatch):
    def find(*environments):
        for name, value in {k: v for e in environments for k, v in e.items()}.items():
            monkeypatch.setenv(name, value)
        resolver = resolvers.find_cluster_resolver()
        workers = resolver.cluster_spec().as_dict()["worker"]
        assert (resolver.task_type, len(workers)) == ("worker", 2)
        return workers[0], resolver.task_id

    return find


@pytest.mark.parametrize(
    ("environment", "first"),
    [
        ({"TF_CONFIG": TF_CONFIG}, r"a:1"),
        (SLURM, r"n1:6\d{4}"),
        ({**SLURM, "JAX_COORDINATOR_PORT": "9000"}, r"n1:9000"),
        ({**OPEN_MPI, "PMIX_NAMESPACE": "prterun-n-1-99@1"}, r"n-1:6\d{4}"),
        ({**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": "4096.0;tcp://10.0.0.1:5"}, r"10.0.0.1"),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, r"127.0.0.1:6\d{4}"),
        ({**PMI, "MPI_LOCALNRANKS": "2"}, r"127.0.0.1:6\d{4}"),
        ({**PMI, "JAX_COORDINATOR_ADDRESS": "n1:5"}, r"n1:5"),
        (JAX_JOB, r"train-worker-0:6666"),
        (TORCHRUN, r"n1:6\d{4}"),
        (PYTORCH, r"job-master-0:23456"),
        ({**PYTORCH, "MASTER_PORT": ""}, r"job-master-0:6\d{4}"),
        ({**PYTORCH, "MASTER_ADDR": "::1"}, r"\[::1\]:23456"),
        ({**JAX, "JAX_COORDINATOR_ADDRESS": "[::1]:5"}, r"\[::1\]:5"),
        ({**POD, "JAX_COORDINATOR_ADDRESS": "train-0.workers:5"}, r"train-0.workers:5"),
    ],
    ids=[
        "tf_config",
        "slurm",
        "slurm_with_port",
        "open_mpi_5",
        "open_mpi_4",
        "open_mpi_on_one_machine",
        "pmi_on_one_machine",
        "pmi",
        "jax_job",
        "torchrun",
        "pytorch",
        "pytorch_without_port",
        "pytorch_ipv6",
        "jax",
        "pod",
    ],
)
def test_worker_and_the_address_of_the_first_are_found(find, environment, first):
    address, index = find(environment)
    assert re.match(first, address)
    assert index == 1


@pytest.mark.parametrize(
    ("environments", "first"),
    [
        ((SLURM, {"TF_CONFIG": TF_CONFIG}), "a:1"),
        ((SLURM, OPEN_MPI, {"JAX_COORDINATOR_ADDRESS": "m:1"}), "m:1"),
        ((SLURM_STEP_OF_MPI, PMI, {"JAX_COORDINATOR_ADDRESS": "m:1"}), "m:1"),
        ((SLURM, PMI), "n1:"),
        ((POD, JAX_JOB), "train-worker-0:6666"),
        ((SLURM, {"TF_CONFIG": "{}"}), "n1:"),
        ((OPEN_MPI, PYTORCH, {"JAX_COORDINATOR_ADDRESS": "m:1"}), "m:1"),
        ((SLURM, PYTORCH), "n1:"),
        ((SLURM_STEP_OF_MPI, PYTORCH), "job-master-0:"),
        ((SLURM, PYTORCH, {"WORLD_SIZE": "1"}), "n1:"),
        ((POD, PYTORCH), "job-master-0:"),
    ],
    ids=[
        "tf_config",
        "open_mpi",
        "mpiexec",
        "srun_with_pmi",
        "jax_job",
        "empty",
        "mpirun_for_pytorch",
        "srun_for_pytorch",
        "ssh_for_pytorch",
        "srun_and_old_variables",
        "pod_for_pytorch",
    ],
)
def test_inner_launcher_counts(find, environments, first):
    assert find(*environments)[0].startswith(first)


@pytest.mark.parametrize(
    ("environment", "other"),
    [
        (SLURM, {"SLURM_JOB_ID": "8"}),
        (SLURM, {"SLURM_STEP_ID": "1"}),
        (
            {**OPEN_MPI, "PMIX_NAMESPACE": "prterun-n-1-99@1"},
            {"PMIX_NAMESPACE": "prterun-n-1-98@1"},
        ),
        (TORCHRUN, {"TORCHELASTIC_RUN_ID": "other"}),
        (TORCHRUN, {"MASTER_PORT": "29501"}),
    ],
    ids=["slurm", "slurm_step", "open_mpi", "torchrun", "torchrun_port"],
)
def test_jobs_have_ports_of_their_own(find, environment, other):
    assert find(environment)[0] != find(environment, other)[0]


def test_workers_of_one_machine_have_ports_of_their_own(monkeypatch):
    for name, value in {**PMI, "MPI_LOCALNRANKS": "2"}.items():
        monkeypatch.setenv(name, value)
    workers = resolvers.find_cluster_resolver().cluster_spec().as_dict()["worker"]
    assert len(set(workers)) == 2


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"},
            "Slurm has 4 tasks for this job.*would train alone. Use `srun python",
        ),
        (
            {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"},
            "Slurm has 2 tasks for this job",
        ),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "1"}, "Slurm has 2 tasks for this job"),
        (PMI, "where the first of 2 workers runs. .*Set it to host:port of worker 0"),
        (OPEN_MPI, "where the first of 2 workers runs"),
        (JAX, "where the first of 2 workers runs"),
        ({"JOB_COMPLETION_INDEX": "0"}, "Received: JAX_NUM_PROCESSES=''. Set JAX_NUM"),
        (POD, "headless Service.*`subdomain` of the pods"),
        ({**PMI, "PMI_RANK": "x"}, "index in PMI_RANK.*Received: PMI_RANK='x'"),
        (
            {"RANK": "0", "WORLD_SIZE": "2"},
            "RANK=0, WORLD_SIZE=2 and no MASTER_ADDR. Set MASTER_ADDR and MASTER_PORT",
        ),
        ({**PYTORCH, "WORLD_SIZE": "x"}, "in WORLD_SIZE. Received: WORLD_SIZE='x'"),
    ],
    ids=[
        "batch_script",
        "nodes",
        "interactive",
        "pmi",
        "open_mpi",
        "jax",
        "pod_count",
        "pod_name",
        "number",
        "pytorch_without_master",
        "pytorch_number",
    ],
)
def test_tasks_that_would_train_alone_are_an_error(monkeypatch, environment, message):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        resolvers.find_cluster_resolver()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"},
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1"},
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
        {"JOB_COMPLETION_INDEX": "0", "JAX_NUM_PROCESSES": "1"},
        {"WORLD_SIZE": "1"},
        {"WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "1"},
        {"RANK": "3"},
        {"RANK": "0", "WORLD_SIZE": ""},
        {**PYTORCH, "WORLD_SIZE": "1", "RANK": "0"},
    ],
    ids=[
        "nothing",
        "batch_script",
        "one_task",
        "mpi",
        "pod",
        "world_size_of_one",
        "no_rank",
        "rank_alone",
        "empty_world_size",
        "pytorch",
    ],
)
def test_single_task_trains_alone(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    workers = resolvers.find_cluster_resolver().cluster_spec().as_dict()
    assert len(workers.get("worker", [])) <= 1
    assert count_tasks() <= 1


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({**SLURM, "SLURM_PROCID": "one"}, "SLURM_PROCID must be a number. Received: "),
        ({**SLURM, "SLURM_NTASKS": "2(x2)"}, "SLURM_NTASKS must be a number. Received"),
        ({**SLURM, "JAX_COORDINATOR_PORT": "x"}, "JAX_COORDINATOR_PORT must be a numb"),
        ({**JAX, "JAX_COORDINATOR_ADDRESS": "node1:"}, "Received: 'node1:'. Use"),
        ({**JAX, "JAX_COORDINATOR_ADDRESS": "h:x"}, "Received: 'h:x'. Use a form such"),
        ({**PYTORCH, "MASTER_PORT": "x"}, "MASTER_PORT must be a number. Received: "),
        ({**JAX_JOB, "COORDINATOR_PORT": "x"}, "Received: 'train-worker-0:x'. Use a f"),
    ],
)
def test_malformed_variables_are_named(find, environment, message):
    with pytest.raises(errors.ConfigurationError, match=re.escape(message)):
        find(environment)


def test_address_without_a_port_may_be_of_ipv6(find):
    for address in ("fe80::1", "[fe80::1]"):
        first, _ = find(JAX, {"JAX_COORDINATOR_ADDRESS": address})
        assert first.startswith("[fe80::1]:6")


def test_pods_are_named_after_job_and_service():
    assert list_pods("my-job-1.workers.ns.svc", 1, 3) == [
        "my-job-0.workers.ns.svc",
        "my-job-1.workers.ns.svc",
        "my-job-2.workers.ns.svc",
    ]


TRAIN = """
import mirrax
strategy = mirrax.{strategy}()
value = strategy.run(lambda: mirrax.get_replica_context().replica_id_in_sync_group + 1)
print("sum", int(strategy.reduce("SUM", value, axis=None)))
"""


def start(environments, strategy="MultiWorkerMirroredStrategy"):
    """Returns the output of a process for each environment, all started at once."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TRAIN.format(strategy=strategy)],
            env={**os.environ, "MIRRAX_JOIN_TIMEOUT": "120", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for environment in environments
    ]
    return [process.communicate(timeout=240)[0] for process in processes]


def tasks(index, **more):
    """Returns for each of two tasks what the scheduler would set."""
    (port,) = find_free_ports()
    environment = {
        name: value.replace("PORT", str(port)) for name, value in more.items()
    }
    return [{**environment, index: str(i)} for i in range(2)]


SCHEDULERS = {
    "slurm": lambda: tasks(
        "SLURM_PROCID",
        **{
            **SLURM,
            "SLURM_STEP_NODELIST": "localhost",
            "SLURM_STEP_TASKS_PER_NODE": "2",
            "JAX_COORDINATOR_PORT": "PORT",
        },
    ),
    "open_mpi": lambda: tasks(
        "OMPI_COMM_WORLD_RANK",
        OMPI_COMM_WORLD_SIZE="2",
        OMPI_COMM_WORLD_LOCAL_SIZE="2",
        JAX_COORDINATOR_PORT="PORT",
    ),
    "indexed_job": lambda: tasks(
        "JOB_COMPLETION_INDEX",
        JAX_NUM_PROCESSES="2",
        JAX_COORDINATOR_ADDRESS="localhost:PORT",
    ),
    "pytorch": lambda: tasks(
        "RANK", WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT="PORT"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["open_mpi", "indexed_job", "pytorch"])
def test_tasks_of_a_scheduler_train_together(scheduler):
    for output in start(SCHEDULERS[scheduler]()):
        assert "sum 3" in output


@pytest.mark.slow
def test_mirrored_strategy_in_several_tasks_says_that_they_are_separate():
    for output in start(SCHEDULERS["slurm"](), "MirroredStrategy"):
        assert "sum 1" in output
        assert output.count("2 processes were started: each trains a model") == 1


@pytest.mark.parametrize(
    ("config", "num_warnings"),
    [
        (TF_CONFIG, 1),
        (TF_CONFIG.replace('"type": "worker"', '"type": "evaluator"'), 0),
        ("{wrong", 0),
        ("", 0),
    ],
    ids=["workers", "evaluator", "wrong", "none"],
)
def test_mirrored_strategy_warns_of_separate_jobs(
    monkeypatch, caplog, config, num_warnings
):
    monkeypatch.setattr(
        mirrored_strategy,
        "_warn_of_separate_jobs",
        mirrored_strategy._warn_of_separate_jobs.__wrapped__,
    )
    monkeypatch.setenv("TF_CONFIG", config)
    mirrored_strategy.MirroredStrategy(["CPU:0"])
    assert caplog.text.count("each trains a model of its own") == num_warnings


def test_mirrored_strategy_knows_the_variables_of_all_launchers():
    markers = {launcher.marker for launcher in LAUNCHERS}
    assert {"TF_CONFIG", *markers} == mirrored_strategy.LAUNCHER_VARIABLES
