"""Workers that are threads of the test, with a real coordinator between them."""

import concurrent.futures
import logging
import os
import re
import signal
import time

import jax
import pytest

from mirrax import errors
from mirrax.cluster import step_record
from mirrax.cluster.worker import heartbeat


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(4) as executor:
        yield executor


def wait_in_guard(job, phase="run"):
    """What a worker does that waits for another one in a collective."""
    with job.guard(phase):
        while job.failure is None:
            time.sleep(0.01)
        raise ValueError("UNKNOWN: Gloo all-reduce failed")


def test_exchange_returns_what_all_gave(make_cluster, pool):
    jobs = make_cluster(4).start()
    payloads = [b"", b"b" * 3_000_000, b"b" * 3_000_000, b"c"]
    calls = [pool.submit(job.exchange, "t", p) for job, p in zip(jobs, payloads)]
    assert [call.result() for call in calls] == [payloads] * 4


def test_different_topics_raise_on_both(make_cluster, pool):
    jobs = make_cluster(2).start()
    first = pool.submit(jobs[0].exchange, "shapes", b"")
    second = pool.submit(jobs[1].exchange, "dtypes", b"")
    for call in (first, second):
        with pytest.raises(errors.ProgramMismatch, match=r"'shapes'") as info:
            call.result()
        assert "'dtypes'" in str(info.value)


def test_exchange_ends_at_its_deadline_for_all(make_cluster, pool):
    jobs = make_cluster(2).start()
    with pytest.raises(errors.CollectiveTimeout, match="for worker 1") as info:
        jobs[0].exchange("shapes", b"", timeout=2.0)
    assert info.value.worker == 1
    assert info.value.phase == "shapes"
    with pytest.raises(errors.CollectiveTimeout):
        jobs[1].exchange("shapes", b"")


def test_lost_worker_ends_an_exchange(make_cluster, pool):
    jobs = make_cluster(2).start()
    call = pool.submit(jobs[0].exchange, "shapes", b"")
    jobs[1].heartbeat._client.close()
    with pytest.raises(errors.WorkerLost, match=r"worker 1 .* died") as info:
        call.result(timeout=120)
    assert (info.value.worker, info.value.host) == (1, "machine1")


def test_guard_turns_a_broken_connection_into_what_broke_it(
    make_cluster, pool, monkeypatch
):
    monkeypatch.setattr(step_record, "_last_step", 3)
    jobs = make_cluster(3).start()
    calls = [pool.submit(wait_in_guard, job) for job in jobs[:2]]
    jobs[2].fail(KeyError("the cause"))
    for call in calls:
        with pytest.raises(errors.WorkerFailed, match="KeyError: 'the cause'") as info:
            call.result(timeout=120)
        assert (info.value.worker, info.value.phase, info.value.step) == (2, "run", 3)


def test_guard_refuses_to_start_in_a_failed_job(make_cluster):
    jobs = make_cluster(2).start()
    jobs[1].fail(KeyError("the cause"))
    with pytest.raises(errors.WorkerFailed):
        wait_in_guard(jobs[0])
    with (
        pytest.raises(errors.WorkerFailed, match="Here: phase 'late'"),
        jobs[0].guard("late"),
    ):
        pass


def test_guard_leaves_other_errors_alone(make_cluster):
    job, _ = make_cluster(2).start()
    with pytest.raises(ValueError, match="my own"), job.guard("run"):
        raise ValueError("my own")
    assert job._progress.inside is None


def test_explanation_of_an_error_of_jax_is_awaited_once(make_cluster, monkeypatch):
    monkeypatch.setattr(heartbeat, "_EXPLAIN_SECONDS", 0.01)
    job, _ = make_cluster(2).start()
    waits = []
    monkeypatch.setattr(
        job.heartbeat, "_wait", lambda _, timeout=None: waits.append(timeout)
    )
    error = jax.errors.JaxRuntimeError("out of memory")
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError), job.guard("run"):
            raise error
    assert waits == [0.01]


def test_stuck_worker_is_named_with_its_stack(make_cluster, pool):
    jobs = make_cluster(2).start(stuck_timeout=2.5)
    call = pool.submit(wait_in_guard, jobs[0])
    with pytest.raises(errors.CollectiveTimeout, match="for worker 1") as info:
        call.result(timeout=120)
    # The main thread of this process is here, waiting for the pool.
    assert "test_stuck_worker_is_named_with_its_stack" in str(info.value)
    # The one that is stuck would be ended if it stayed away from its next wait.
    with pytest.raises(errors.CollectiveTimeout):
        wait_in_guard(jobs[1])
    jobs[1].leave()


def test_worker_that_has_raised_may_take_its_time(make_cluster, pool):
    jobs = make_cluster(2).start(stuck_timeout=2.5)
    calls = [pool.submit(wait_in_guard, job) for job in jobs]
    for call in calls:
        with pytest.raises(errors.CollectiveTimeout, match="all workers are there"):
            call.result(timeout=120)
    assert not any(job.heartbeat._is_stuck() for job in jobs)


def wait_for_heartbeats(job, count):
    for _ in range(count):
        last, deadline = job.heartbeat._last_heard, time.monotonic() + 120
        while job.heartbeat._last_heard == last and time.monotonic() < deadline:
            time.sleep(0.01)


def test_worker_that_leaves_early_is_no_failure_until_it_is_missed(make_cluster, pool):
    jobs = make_cluster(2).start()
    jobs[1].leave()
    # The coordinator has noticed it when it sends the second one.
    wait_for_heartbeats(jobs[0], 2)
    assert jobs[0].failure is None
    call = pool.submit(wait_in_guard, jobs[0])
    with pytest.raises(errors.ProgramMismatch, match=r"worker 1 .* has finished"):
        call.result(timeout=120)


def test_long_wait_is_logged_with_who_is_missing(make_cluster, caplog):
    cluster = make_cluster(2)
    job = cluster.join(0)
    with caplog.at_level(logging.WARNING):
        deadline = time.monotonic() + 120
        while not caplog.messages and time.monotonic() < deadline:
            time.sleep(0.1)
    assert re.fullmatch(
        r"worker 0 has waited \d+ s of 120 for worker 1 \(127.0.0.1:1001\) to join\.",
        caplog.messages[0],
    )
    job.leave()


def test_end_of_the_coordinator_is_a_loss(make_cluster):
    cluster = make_cluster(2)
    job, _ = cluster.start()
    cluster.coordinator.stop()
    with pytest.raises(errors.WorkerLost, match="The connection to the coordinator"):
        job.exchange("t", b"")


def test_silent_coordinator_is_a_loss(make_cluster):
    cluster = make_cluster(2, job_silence=5.0)
    job, _ = cluster.start()
    os.kill(cluster.coordinator.process_id, signal.SIGSTOP)
    with pytest.raises(errors.WorkerLost, match="The connection to the coordinator"):
        job.exchange("t", b"")
