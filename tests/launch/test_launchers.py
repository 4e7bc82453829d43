"""Launchers of several machines, all on this one, agree on attempts."""

import contextlib
import dataclasses
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from mirrax.cluster.job_options import JobOptions
from mirrax.errors import CollectiveTimeout
from mirrax.launch import launch_command
from mirrax.launch.follower import Follower
from mirrax.launch.job_result import Cause, JobResult
from mirrax.launch.leader import Leader
from mirrax.launch.machines import Machines
from mirrax.launch.restarts import run_job
from mirrax.launch.supervisor import Supervisor
from mirrax.launch.worker_plan import LaunchPlan, plan_hosts
from tests.launch import scripts
from tests.launch.shrinking import find_hosts, shrink_and_grow

SCRIPT = str(pathlib.Path(scripts.__file__))
KILLED = Cause("worker 1", "SIGKILL", "killed by SIGKILL")
STOPPED = Cause("worker 0", "WorkerLost", "WorkerLost: worker 1", is_consequence=True)


def result_of(cause=None, code=0):
    return JobResult(code, cause=cause)


def make_machines(count=2, minimum=None, timeout=60.0):
    options = JobOptions(join_timeout=timeout, secret="secret")
    return Machines(find_hosts(count), 1, minimum or count, count, options)


@pytest.fixture
def lead():
    leaders = []

    def make(machines, show=lambda line: None):
        leaders.append(Leader(machines, show))
        return leaders[-1]

    yield make
    for leader in leaders:
        leader.finish(0)


@pytest.fixture
def follow():
    followers = []

    def make(machines, index):
        followers.append(Follower(machines, index, print))
        return followers[-1]

    yield make
    for follower in followers:
        follower.finish(0)


def test_all_machines_get_the_same_token_of_each_attempt(lead, follow):
    machines = make_machines()
    leader = lead(machines)
    follower = follow(machines, 1)
    tokens = []
    for _ in range(2):
        own, other = leader.start_attempt(()), follower.start_attempt(())
        assert (own.local, other.local) == ((0,), (1,))
        assert dataclasses.replace(own, local=(1,)) == other
        tokens.append(own.token)
        follower.collect(result_of(), ())
        assert leader.collect(result_of(), ()).cause is None
    assert len(set(tokens)) == 2
    leader.finish(3)
    assert follower.start_attempt(()) == JobResult(3)


def test_cause_on_another_machine_is_found(lead, follow):
    machines = make_machines()
    leader, follower = lead(machines), follow(machines, 1)
    leader.start_attempt(())
    follower.collect(result_of(KILLED, 137), ())
    assert leader.collect(result_of(STOPPED, 75), ()).cause == KILLED


def test_failure_on_another_machine_fails_a_job_that_is_done_here(lead, follow):
    machines = make_machines()
    leader, follower = lead(machines), follow(machines, 1)
    leader.start_attempt(())
    follower.collect(result_of(KILLED, 137), ())
    result = leader.collect(result_of(), ())
    assert (result.cause, result.exit_code) == (KILLED, 137)


def test_ends_of_other_machines_are_known_during_an_attempt(lead, follow):
    machines = dataclasses.replace(make_machines(count=4, minimum=3), num_workers=2)
    leader = lead(machines)
    first, second, third = (follow(machines, index) for index in (1, 2, 3))
    leader.start_attempt(())
    assert leader.ended_workers() == {}
    first.report_exit(3, "killed by SIGKILL", has_failed=True)
    second.finish(0)
    while len(ended := leader.ended_workers()) < 3:
        time.sleep(0.01)
    assert ended == {
        3: ("killed by SIGKILL", True),
        4: ("its launcher is gone", False),
        5: ("its launcher is gone", False),
    }
    for follower in (first, third):
        follower.collect(result_of(), ())
    leader.collect(result_of(), ())
    leader.start_attempt(())
    assert 3 not in leader.ended_workers()


def test_launcher_that_comes_back_takes_part_in_the_start_attempt(lead, follow):
    machines = make_machines()
    leader = lead(machines)
    follow(machines, 1)
    leader.start_attempt(())
    before = leader._launchers[1]
    again = follow(machines, 1)
    while leader._launchers.get(1, before) is before:
        time.sleep(0.01)
    cause = leader.collect(result_of(STOPPED, 75), ()).cause
    assert cause.kind == "LauncherLost"
    leader.start_attempt(())
    assert isinstance(again.start_attempt(()), LaunchPlan)


def test_machine_that_is_gone_is_left_out_of_an_elastic_job(lead, follow):
    machines = make_machines(count=3, minimum=2)
    leader = lead(machines)
    first, second = follow(machines, 1), follow(machines, 2)
    assert leader.start_attempt(()).local == (0,)
    assert isinstance(second.start_attempt(()), LaunchPlan)
    first.finish(0)
    second.collect(result_of(STOPPED, 75), ())
    cause = leader.collect(result_of(STOPPED, 75), ()).cause
    assert str(cause) == f"{machines.hosts[1]}: its launcher is gone"
    assert cause.is_curable
    assert len(leader.start_attempt(()).workers) == 2
    assert second.start_attempt(()).local == (1,)
    # It returns, and takes part in the next attempt.
    first = follow(machines, 1)
    second.collect(result_of(KILLED, 137), ())
    leader.collect(result_of(STOPPED, 75), ())
    while len(leader._launchers) < 2:
        time.sleep(0.01)
    assert len(leader.start_attempt(()).workers) == 3


def test_machine_that_was_stopped_ends_a_job_that_needs_it(lead, follow):
    machines = make_machines()
    leader, follower = lead(machines), follow(machines, 1)
    leader.start_attempt(())
    follower.collect(result_of(), [signal.SIGTERM])
    cause = leader.collect(result_of(STOPPED, 75), ()).cause
    assert str(cause) == f"{machines.hosts[1]}: a signal has ended its launcher"
    assert not cause.is_curable


def test_elastic_job_goes_on_after_a_machine_was_preempted(lead, follow):
    preempted = dataclasses.replace(result_of(code=75), is_preempted=True)
    machines = make_machines(minimum=1)
    leader, follower = lead(machines), follow(machines, 1)
    leader.start_attempt(())
    follower.collect(preempted, ())
    assert leader.collect(preempted, ()) == preempted
    leader.start_attempt(())
    follower.collect(preempted, [signal.SIGTERM])
    assert leader.collect(preempted, ()).cause.is_curable


def test_signal_ends_the_wait_for_other_machines(lead, follow):
    machines = make_machines()
    leader = lead(machines)
    follow(machines, 1)
    leader.start_attempt(())
    signals = []
    timer = threading.Timer(0.1, signals.append, [signal.SIGTERM])
    timer.start()
    cause = leader.collect(result_of(STOPPED, 75), signals).cause
    assert cause.kind == "LauncherLost"
    assert cause.text == "another signal ended the wait for its launcher"
    timer.join()


def test_leader_that_is_stopped_before_an_attempt_starts_no_other_machine(lead, follow):
    machines = make_machines(count=3)
    leader, follower = lead(machines), follow(machines, 1)
    while not leader._launchers:
        time.sleep(0.01)
    leader.start_attempt([signal.SIGTERM])
    leader.finish(75)
    assert follower.start_attempt(()) == JobResult(75)


def test_follower_that_is_preempted_between_attempts_can_be_requeued(
    lead, follow, tmp_path
):
    machines = make_machines()
    lead(machines)
    for signal_number, code in ((signal.SIGTERM, 75), (signal.SIGINT, 130)):
        result = run_job(follow(machines, 1), [], tmp_path, signals=[signal_number])
        assert result.exit_code == code


def test_preempted_follower_has_the_exit_code_of_its_workers(lead, follow, tmp_path):
    machines = make_machines()
    leader, follower = lead(machines), follow(machines, 1)
    leader.start_attempt(())
    signals = []

    def stop(line):
        signals.append(signal.SIGTERM)

    command = [sys.executable, SCRIPT, "tidy"]
    result = run_job(follower, command, tmp_path, show=stop, signals=signals)
    assert result.exit_code == 7


def test_missing_machine_is_named(lead):
    machines = make_machines(timeout=0.2)
    with pytest.raises(CollectiveTimeout, match=f"no launcher of {machines.hosts[1]}"):
        lead(machines).start_attempt(())


def test_missing_leader_is_named(follow):
    machines = make_machines(timeout=0.2)
    error = "The launcher of the first machine must be reached within 0.2 s."
    with pytest.raises(CollectiveTimeout, match=error):
        follow(machines, 1)


def test_machine_that_reports_late_is_told_from_one_that_is_gone(monkeypatch, follow):
    monkeypatch.setattr("mirrax.launch.leader._END_SECONDS", 0.2)
    machines = make_machines()
    leader = Leader(machines, print, grace=0.1)
    follower = follow(machines, 1)
    leader.start_attempt(())
    cause = leader.collect(result_of(), ()).cause
    assert cause.kind == "LauncherLost"
    assert cause.text == "its launcher did not report within 0.3 s"
    leader.finish(1)
    assert isinstance(follower.start_attempt(()), LaunchPlan)
    assert follower.start_attempt(()) == JobResult(75)


def test_stranger_is_refused(lead, follow):
    machines = make_machines()
    lead(machines)
    options = JobOptions(join_timeout=0.5, secret="another")
    stranger = dataclasses.replace(machines, options=options)
    with pytest.raises(RuntimeError, match="another key; MIRRAX_SECRET"):
        follow(stranger, 1)


@pytest.mark.parametrize("change", [{"num_workers": 2}, {"hosts": ()}])
def test_launcher_with_other_options_is_refused(lead, follow, change):
    machines = make_machines()
    said = []
    lead(machines, said.append)
    hosts = change.get("hosts", machines.hosts) or (*machines.hosts, "127.0.0.3:1")
    other = dataclasses.replace(machines, **{**change, "hosts": hosts})
    with pytest.raises(RuntimeError, match="must have the same --hosts and -n"):
        follow(other, 1)
    (line,) = said
    assert "was refused. All launchers of a job must have the same --hosts" in line


def test_lost_leader_ends_the_job_elsewhere(lead, follow):
    machines = make_machines()
    leader = lead(machines)
    follower = follow(machines, 1)
    while not leader._launchers:
        time.sleep(0.01)
    leader._launchers[1].connection.shutdown(socket.SHUT_RDWR)
    assert follower.start_attempt(()) == JobResult(75)


def test_invalid_message_of_the_leader_ends_the_job_elsewhere(lead, follow, caplog):
    machines = make_machines()
    leader = lead(machines)
    follower = follow(machines, 1)
    while not leader._launchers:
        time.sleep(0.01)
    leader._launchers[1].connection.sendall(b"\xff" * 64)
    stop_waiting = []
    timer = threading.Timer(60, stop_waiting.append, [signal.SIGINT])
    timer.start()
    assert follower.start_attempt(stop_waiting) == JobResult(75)
    timer.cancel()
    assert "The launcher of the first machine sent an invalid message." in caplog.text


def test_signal_ends_a_launcher_that_waits_for_workers_of_other_machines(tmp_path):
    signals, said = [], []

    def stop(line):
        said.append(line)
        signals.append(signal.SIGTERM)

    result = Supervisor(
        plan_hosts(find_hosts(2), 0, 1, "token"),
        [sys.executable, "-c", ""],
        tmp_path,
        environment=os.environ,
        show=stop,
        signals=signals,
        grace=600.0,
    ).run(timeout=60.0)
    assert "Waiting for those of other machines" in said[0]
    assert not result.timed_out
    assert result.exit_code == 0


def test_second_sigterm_leaves_workers_of_other_machines_their_time(tmp_path):
    signals, asked_after = [], []

    def stop(line):
        if "ready" in line or "Waiting for those of other machines" in line:
            signals.append(signal.SIGTERM)

    def end_later():
        if len(signals) == 2:
            asked_after.append(True)
        return {1: ("exit code 75", True)} if len(asked_after) > 5 else {}

    result = Supervisor(
        plan_hosts(find_hosts(2), 0, 1, "token"),
        [sys.executable, SCRIPT, "tidy"],
        tmp_path,
        environment={**os.environ, "MIRRAX_FAILURE_GRACE": "600"},
        show=stop,
        signals=signals,
        grace=600.0,
        ended_elsewhere=end_later,
    ).run(timeout=240.0)
    assert len(asked_after) > 5
    assert not result.timed_out
    assert result.exit_code == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--elastic", "1:2"], "--elastic counts machines, so it needs --hosts"),
        (["--elastic", "1:2", "-n", "2"], "--max-restarts alone starts all workers"),
        (["--elastic", "3:2"], "--elastic must be MIN:MAX, numbers of machines from 1"),
        (["--elastic", "two"], "--elastic must be MIN:MAX"),
    ],
    ids=["alone", "workers", "order", "text"],
)
def test_wrong_arguments_are_explained(capsys, arguments, message):
    hosts = ["--hosts", "127.0.0.1:1,127.0.0.2:1", "--host-index", "0"]
    hosts += ["--max-restarts", "1"]
    more = hosts if "MIN:MAX" in message else []
    assert launch_command.main([*more, *arguments, SCRIPT]) == 2
    assert message in capsys.readouterr().err


@contextlib.contextmanager
def launchers(hosts, *options, count):
    processes = []
    for index in range(count):
        command = [sys.executable, "-m", "mirrax.launch", "--hosts", ",".join(hosts)]
        command += ["--host-index", str(index), *options]
        processes.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_job_of_two_launchers_is_started_again(tmp_path):
    hosts = find_hosts(2)
    program = (SCRIPT, "fail_at_first", str(tmp_path / "mark"))
    with launchers(hosts, "--max-restarts", "1", *program, count=2) as processes:
        first, second = (process.communicate(timeout=240)[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert "worker 1: KeyError: 'the cause'. Restart 1 of 1 in 1 s." in first
    assert first.count("[worker 0] done") >= 1
    assert "[worker 1] done" in second


def test_worker_that_ends_before_it_joins_ends_a_job_without_restarts():
    program = (SCRIPT, "import_nothing_on_the_second")
    with launchers(find_hosts(2), *program, count=2) as processes:
        # Less than the time that workers have to join.
        outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [1, 1]
    error = "ModuleNotFoundError: No module named 'no_such_module'"
    first = f"mirrax launch: worker 1 failed first: {error} (exit code 1).\nTraceback"
    assert first in outputs[0]
    assert f"mirrax launch: worker 1: {error}." in outputs[1]


def test_worker_that_runs_on_after_a_failure_elsewhere_is_not_the_cause(monkeypatch):
    monkeypatch.setenv("MIRRAX_FAILURE_GRACE", "1")
    with launchers(find_hosts(2), SCRIPT, "fail", count=2) as processes:
        outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [1, 1]
    assert "worker 1 failed first: KeyError: 'the cause' (exit code 1)." in outputs[0]


@pytest.mark.slow
def test_worker_that_ends_before_it_joins_ends_the_attempt_on_all_machines():
    program = ("--max-restarts", "1", SCRIPT, "import_nothing_on_the_second")
    with launchers(find_hosts(2), *program, count=2) as processes:
        # Less than the time that workers have to join.
        outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [1, 1]
    error = "ModuleNotFoundError: No module named 'no_such_module'"
    assert "ended before it joined: exit code 1" in outputs[0]
    assert f"worker 1: {error}. Not started again" in outputs[0]


@pytest.mark.slow
def test_raised_system_exit_on_another_machine_is_a_failure_that_is_tried_again(
    tmp_path,
):
    program = ("-n", "2", "--max-restarts", "1", SCRIPT, "exit_at_first")
    program += (str(tmp_path / "mark"),)
    with launchers(find_hosts(2), *program, count=2) as processes:
        outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert "worker 3: exit code 4. Restart 1 of 1" in outputs[0]
    assert "mirrax.errors.WorkerFailed: worker 3 (" in outputs[0]


@pytest.mark.slow
def test_elastic_job_shrinks_and_grows_with_the_same_samples(tmp_path):
    shrink_and_grow(tmp_path, find_hosts(3))
