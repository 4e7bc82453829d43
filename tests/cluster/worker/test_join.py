"""Real workers: how they start, how they fail and how they end."""

import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time

import jax
import pytest

from mirrax import errors
from mirrax.cluster import join_job
from mirrax.cluster_resolver import ClusterSpec, SimpleClusterResolver
from mirrax.launch.machines import Alone
from mirrax.launch.restarts import run_job
from mirrax.launch.worker_output import WorkerOutput
from mirrax.launch.worker_process import WorkerProcess
from tests.cluster import programs
from tests.free_ports import find_free_ports

PROGRAM = str(pathlib.Path(programs.__file__))
# What no user wants to see, whatever happens.
NOISE = re.compile(r"SIGABRT|core dumped|Check failure|\.cc:\d+\]|Fatal|\[Gloo\]")


def supervise(num_workers, *arguments, **environment):
    command = [sys.executable, PROGRAM, *map(str, arguments)]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        return run_job(
            Alone(num_workers),
            command,
            pathlib.Path(folder),
            environment={**BASE, **environment},
            show=lines.append,
            # That of signals: after a failure MIRRAX_FAILURE_GRACE counts.
            grace=1000.0,
            timeout=240,
        )


BASE = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PJRT_NPROC", "XLA_FLAGS")
} | {"JAX_PLATFORMS": "cpu", "MIRRAX_FAILURE_GRACE": "120"}


def caught(log):
    """What a worker said that it caught."""
    (line,) = re.findall(r"^CAUGHT (.*)$", log, flags=re.MULTILINE)
    return json.loads(line)


def test_workers_meet_and_compute_together(run_in_processes):
    answers = run_in_processes(programs.report, num_processes=2, devices=2)
    assert [answer["index"] for answer in answers] == [0, 1]
    assert [answer["is_chief"] for answer in answers] == [True, False]
    for answer in answers:
        del answer["index"], answer["is_chief"]
        assert answer == {
            "workers": ["worker 0", "worker 1"],
            "processes": 2,
            "devices": 4,
            "local": 2,
            "payloads": [b"0", b"1"],
            "sum": 4.0,
            "open_services": [],
        }


@pytest.mark.slow
def test_end_of_a_forked_process_is_no_matter_of_the_job(run_in_processes):
    assert run_in_processes(programs.fork) == [(-signal.SIGTERM, 2.0)] * 2


@pytest.mark.slow
def test_long_folder_for_temporary_files_is_no_hindrance(run_in_processes, tmp_path):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    environment = {"TMPDIR": str(folder)}
    answers = run_in_processes(programs.report, environment=environment)
    assert [answer["sum"] for answer in answers] == [2.0, 2.0]
    assert list(folder.iterdir()) == []


def test_cluster_of_one_is_no_job():
    assert join_job(SimpleClusterResolver(ClusterSpec({"worker": ["a:1"]}))) is None


def test_used_jax_is_one_error_that_says_what_to_do():
    resolver = SimpleClusterResolver(
        ClusterSpec({"worker": ["127.0.0.1:1", "127.0.0.1:2"]}),
        task_type="worker",
        task_id=0,
    )
    assert jax.devices()
    with pytest.raises(
        RuntimeError, match=r"has already run an operation.*at the start"
    ):
        join_job(resolver)


@pytest.mark.parametrize(
    "culprit", [pytest.param(0, marks=pytest.mark.slow), 1], ids=["chief", "worker"]
)
def test_death_is_seen_by_all_others(culprit):
    outcome = supervise(3, "kill", culprit)
    assert outcome.exit_code == 137
    assert outcome.report == f"worker {culprit} failed first: killed by SIGKILL."
    for index in {0, 1, 2} - {culprit}:
        assert outcome.exit_codes[index] == 75
        found = caught(outcome.logs[index])
        assert (found["error"], found["worker"]) == ("WorkerLost", culprit)
        assert (found["phase"], found["step"]) == ("run", 4)
        assert not NOISE.search(outcome.logs[index])
        assert "died: killed by SIGKILL" in outcome.logs[index]


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [("exit", "WorkerLost", 75), ("finish", "ProgramMismatch", 1)],
)
@pytest.mark.slow
def test_worker_that_ends_well_too_early_is_to_blame(fault, error, code):
    outcome = supervise(2, fault, 1)
    assert outcome.exit_codes == [code, 0]
    assert outcome.exit_code == code
    assert outcome.cause.is_curable is (code == 75)
    found = caught(outcome.logs[0])
    assert (found["error"], found["worker"]) == (error, 1)
    summary, _, reason = outcome.report.partition("\n")
    assert summary == (
        "worker 1 failed first: exit code 0, before the others were done."
    )
    assert reason.startswith(f"{error}: ")
    assert "signal" not in reason


@pytest.mark.slow
def test_exit_with_a_text_is_a_failure():
    outcome = supervise(2, "sys.exit text", 1)
    assert outcome.exit_codes == [75, 1]
    reason = "SystemExit: 'no data' at"
    found = caught(outcome.logs[0])
    assert (found["error"], found["worker"]) == ("WorkerFailed", 1)
    assert reason in outcome.logs[0]
    summary, _, rest = outcome.report.partition("\n")
    assert summary == "worker 1 failed first: exit code 1."
    assert reason in rest


@pytest.mark.slow
def test_raised_system_exit_is_reported_by_the_launcher():
    outcome = supervise(2, "SystemExit", 1)
    assert outcome.exit_codes == [75, 4]
    assert outcome.report.startswith("worker 1 failed first: exit code 4.")
    assert caught(outcome.logs[0])["worker"] == 1


@pytest.mark.slow
def test_exit_that_the_program_catches_is_no_failure():
    assert supervise(2, "caught exit", 1).exit_codes == [0, 0]


@pytest.mark.slow
def test_exit_of_a_thread_ends_only_the_thread():
    outcome = supervise(2, "exit of a thread", 1)
    assert outcome.exit_codes == [0, 0]
    assert "Traceback" not in outcome.logs[1]


@pytest.mark.slow
def test_exit_with_a_failure_code_is_seen_without_a_launcher():
    first, second = start_without_launcher("sys.exit", 1)
    assert (first.exit_code, second.exit_code) == (75, 3)
    assert "SystemExit: 3 at" in "\n".join(first.output.lines)


@pytest.mark.parametrize("part", ["connect_jax", "warm_up"])
@pytest.mark.slow
def test_death_during_the_start_is_seen(part):
    outcome = supervise(2, part, 0)
    assert outcome.exit_codes == [137, 75]
    assert "mirrax.errors.WorkerLost: worker 0" in outcome.logs[1]
    assert "Here: phase 'connecting" in outcome.logs[1]
    assert not NOISE.search(outcome.logs[1])
    assert "FATAL" not in outcome.logs[1]


def test_exception_ends_all_with_its_traceback():
    outcome = supervise(2, "raise", 1)
    assert outcome.exit_codes == [75, 1]
    assert outcome.exit_code == 1
    assert outcome.report.startswith(
        "worker 1 failed first: KeyError: 'the cause' (exit code 1).\nTraceback"
    )
    assert outcome.report.endswith("KeyError: 'the cause'")
    found = caught(outcome.logs[0])
    assert (found["error"], found["worker"]) == ("WorkerFailed", 1)
    first = "The cause is KeyError: 'the cause'\nOn worker 1: Traceback"
    assert first in outcome.logs[0]
    assert outcome.logs[0].count("KeyError: 'the cause'") == 2
    assert not any(NOISE.search(log) for log in outcome.logs)


@pytest.mark.slow
def test_error_outside_of_a_guard_is_explained_at_the_end():
    outcome = supervise(2, "kill unguarded", 1)
    assert outcome.exit_codes == [75, 137]
    assert "mirrax.errors.WorkerLost: worker 1" in outcome.logs[0]
    assert not NOISE.search(outcome.logs[0])


@pytest.mark.slow
def test_stopped_worker_is_a_loss_after_its_silence():
    outcome = supervise(
        2, "stop", 1, MIRRAX_FAILURE_GRACE="20", MIRRAX_SILENCE_TIMEOUT="10"
    )
    found = caught(outcome.logs[0])
    assert (found["error"], found["worker"]) == ("WorkerLost", 1)
    # The stopped one cannot end by itself; the launcher ends it. To try again may help.
    assert outcome.exit_codes == [75, 137]
    assert outcome.exit_code == 75
    assert "worker 1 failed first: hung, and was killed by the launcher." in (
        outcome.report
    )
    assert outcome.cause.kind == "WorkerLost"
    assert "has not been heard from for" in outcome.cause.text


@pytest.mark.slow
def test_stuck_worker_is_found_and_ends_too():
    outcome = supervise(2, "sleep", 1, MIRRAX_STUCK_TIMEOUT="15")
    found = caught(outcome.logs[0])
    assert (found["error"], found["worker"]) == ("CollectiveTimeout", 1)
    assert "time.sleep(1000)" in outcome.logs[0]
    assert outcome.exit_codes == [75, 75]


@pytest.mark.parametrize("fault", ["sleep", "stop"])
@pytest.mark.slow
def test_workers_that_all_hang_are_found(fault):
    outcome = supervise(
        2, fault, programs.ALL, MIRRAX_FAILURE_GRACE="8", MIRRAX_IDLE_TIMEOUT="6"
    )
    # Stopped ones cannot end by themselves; the launcher ends them.
    assert set(outcome.exit_codes) <= {75, 137}
    assert not outcome.timed_out


class Workers:
    """Two workers without a launcher, of a job that may have more."""

    def __init__(self, *arguments, sleeps=("0", "0"), num_workers=2, **environment):
        ports = find_free_ports(num_workers)
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        command = [sys.executable, PROGRAM, *map(str, arguments)]
        self.children = []
        for index in range(2):
            config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
            own = {"TF_CONFIG": json.dumps(config), "TEST_SLEEP": sleeps[index]}
            self.children.append(
                WorkerProcess(
                    command,
                    {**BASE, **environment, **own},
                    WorkerOutput(f"worker {index}", lambda _: None),
                )
            )

    def wait(self, index):
        self.children[index]._process.wait(timeout=240)
        self.children[index].finish()
        return self.children[index].exit_code

    def kill(self):
        for child in self.children:
            child.kill()


def start_without_launcher(*arguments, sleeps=("0", "0")):
    workers = Workers(*arguments, sleeps=sleeps)
    for index in range(2):
        workers.wait(index)
    return workers.children


@pytest.mark.slow
def test_first_worker_waits_for_the_others_at_the_end_only_for_so_long():
    workers = Workers("none", 0, sleeps=("0", "1000"), MIRRAX_IDLE_TIMEOUT="20")
    try:
        assert workers.wait(0) == 0
        assert workers.children[1].exit_code is None
    finally:
        workers.kill()


@pytest.mark.slow
def test_death_of_the_first_worker_is_seen_before_all_have_joined():
    workers = Workers("none", 0, num_workers=3)
    try:
        while not any(
            "for worker 2" in line for line in workers.children[1].output.lines
        ):
            assert workers.children[1].exit_code is None
            time.sleep(0.1)
        workers.children[0].signal(signal.SIGKILL)
        assert workers.wait(1) == 75
        assert "mirrax.errors.WorkerLost: worker 0" in "\n".join(
            workers.children[1].output.lines
        )
    finally:
        workers.kill()


@pytest.mark.slow
def test_workers_end_cleanly_at_different_times():
    children = start_without_launcher("none", 0, sleeps=("0", "4"))
    assert [child.exit_code for child in children] == [0, 0]
    # On a busy machine one may say that it waits for the other to start or to end.
    lines = [line for child in children for line in child.output.lines]
    assert [line for line in lines if not re.search("[Ww]ait", line)] == []


def test_first_worker_that_does_not_come_is_a_failure_of_the_job():
    (port,) = find_free_ports()
    cluster = {"worker": [f"127.0.0.1:{port}", "127.0.0.1:1"]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    environment = {"TF_CONFIG": json.dumps(config), "MIRRAX_JOIN_TIMEOUT": "1"}
    command = [sys.executable, PROGRAM, "none", "0"]
    child = WorkerProcess(
        command,
        {**BASE, **environment},
        WorkerOutput("worker 1", lambda _: None),
    )
    child._process.wait(timeout=240)
    child.finish()
    assert child.exit_code == 75
    assert (
        "CollectiveTimeout: The first worker must be reached" in child.output.lines[-1]
    )


@pytest.mark.slow
def test_death_of_the_first_worker_is_seen_without_a_launcher():
    first, second = start_without_launcher("kill", 0)
    assert (first.exit_code, second.exit_code) == (137, 75)
    found = caught("\n".join(second.output.lines))
    assert (found["error"], found["worker"]) == ("WorkerLost", 0)
    assert not NOISE.search("\n".join(second.output.lines))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_worker_that_waits_for_the_others_at_its_end_can_be_interrupted(number):
    workers = Workers("none", 0, sleeps=("0", "600"))
    try:
        first = workers.children[0]
        deadline = time.monotonic() + 240
        while not any("This worker is done" in line for line in first.output.lines):
            assert time.monotonic() < deadline, first.output.lines
            time.sleep(0.05)
        first.signal(number)
        assert workers.wait(0) == 128 + number
        assert "Traceback" not in "\n".join(first.output.lines)
    finally:
        workers.kill()


def test_errors_have_the_fields_of_what_happened():
    error = errors.WorkerLost("gone", worker=1, host="h", phase="run", step=3)
    assert isinstance(error, RuntimeError)
    assert (error.worker, error.host, error.phase, error.step) == (1, "h", "run", 3)
