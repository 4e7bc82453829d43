"""The files in docs/your_cluster.md, run or read as far as one machine can."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from mirrax.cluster.resolvers.detection import LAUNCHERS, list_pods
from mirrax.launch.launch_command import _parse
from tests.pages import ROOT, blocks

PAGE = "docs/your_cluster.md"
FAKE_SRUN = """#!/bin/sh
# Starts two tasks here, with what Slurm sets for them. Each writes to a file of its
# own: in a common pipe their lines would mix.
shift 2
for task in 0 1; do
  SLURM_PROCID=$task SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 \\
    SLURM_STEP_NODELIST=localhost SLURM_STEP_TASKS_PER_NODE=2 "$@" > "task$task" &
done
wait
cat task0 task1
"""
TRAIN = """
import mirrax
strategy = mirrax.MultiWorkerMirroredStrategy()
print("replicas", strategy.num_replicas_in_sync)
"""


@pytest.fixture
def manifests():
    yaml = pytest.importorskip("yaml")
    found = [each for text in blocks(PAGE, "yaml") for each in yaml.safe_load_all(text)]
    return {each["kind"]: each for each in found}


def test_indexed_job_tells_its_pods_what_is_read(manifests):
    job, service = manifests["Job"], manifests["Service"]
    pods = job["spec"]["template"]["spec"]
    settings = {
        each["name"]: each.get("value") for each in pods["containers"][0]["env"]
    }
    (launcher,) = [each for each in LAUNCHERS if each.marker == "JOB_COMPLETION_INDEX"]
    assert settings[launcher.count] == str(job["spec"]["completions"])
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["parallelism"] == job["spec"]["completions"]
    assert pods["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert service["spec"]["clusterIP"] == "None"
    # The name that Kubernetes gives to pod 1.
    name = f"{job['metadata']['name']}-1.{pods['subdomain']}"
    assert list_pods(name, 1, 2) == ["train-0.workers", "train-1.workers"]


def test_secret_of_the_job_is_in_its_manifest(manifests):
    pods = manifests["Job"]["spec"]["template"]["spec"]
    (reference,) = [
        each["valueFrom"]["secretKeyRef"]
        for each in pods["containers"][0]["env"]
        if each["name"] == "MIRRAX_SECRET"
    ]
    secret = manifests["Secret"]
    assert reference["name"] == secret["metadata"]["name"]
    assert reference["key"] in secret["stringData"]


def test_jax_job_has_the_port_that_it_announces(manifests):
    worker = manifests["JAXJob"]["spec"]["jaxReplicaSpecs"]["Worker"]
    (container,) = worker["template"]["spec"]["containers"]
    assert container["name"] == "jax"
    assert container["ports"][0]["name"] == "jaxjob-port"


def test_variables_of_all_launchers_are_documented():
    text = (ROOT / "docs/cluster.md").read_text()
    names = {n for each in LAUNCHERS for n in (each.marker, each.index, each.count)}
    assert {n for n in names - {"SLURM_NTASKS"} if f"`{n}`" not in text} == set()


def test_commands_of_the_launcher_are_accepted():
    script = next(text for text in blocks(PAGE, "sh") if "ssh node2" in text)
    commands = re.findall(r"mirrax launch (.*? train\.py)", script)
    assert [_parse(each.split()).host_index for each in commands] == [1, 0]


@pytest.mark.slow
def test_batch_script_starts_workers_that_find_each_other(tmp_path):
    script = next(text for text in blocks(PAGE, "sh") if "#SBATCH" in text)
    (tmp_path / "job.sh").write_text(script)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "srun").write_text(FAKE_SRUN)
    (tmp_path / "srun").chmod(0o755)
    path = f"{tmp_path}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.run(
        ["bash", "job.sh"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "SLURM_JOB_ID": str(os.getpid())},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert process.stdout.splitlines() == ["replicas 2", "replicas 2"], process.stderr
    assert process.returncode == 0
