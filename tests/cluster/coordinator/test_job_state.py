"""The coordinator's judgement, on moments that the tests make up."""

import pytest

from mirrax.cluster.coordinator.job_state import JobState
from mirrax.cluster.failure import PhaseReport
from mirrax.cluster.job_options import JobOptions
from mirrax.cluster.membership import Worker
from mirrax.cluster.net.messages import Message

WORKERS = [Worker("worker", index, f"h{index}:1") for index in range(3)]


def limits(join_timeout=60, silence_timeout=30):
    return JobOptions(
        join_timeout=join_timeout, silence_timeout=silence_timeout, idle_timeout=900
    )


def body(index, **configuration):
    return {"hostname": f"m{index}", "pid": index, "configuration": configuration}


def start():
    job_state = JobState(WORKERS, limits(), now=0)
    for index in range(3):
        assert job_state.add_worker(index, body(index), now=0) is None
    job_state.outbox.clear()
    return job_state


def tell(job_state, index, now, **progress):
    job_state.receive(
        index, Message("progress", PhaseReport(**progress).as_fields()), now
    )


def told(job_state):
    """What the job_state has sent, except its signs of life."""
    return [(index, m) for index, m in job_state.outbox if m.kind != "heartbeat"]


def run_until(job_state, now):
    moment = 0.0
    while moment < now and job_state.failure is None:
        moment += 0.5
        job_state.tick(moment)
    return moment


def test_all_are_told_to_go_when_the_last_joins():
    job_state = JobState(WORKERS, limits(), now=0)
    job_state.add_worker(2, body(2), 0)
    job_state.add_worker(0, body(0), 0)
    assert not job_state.outbox
    job_state.add_worker(1, body(1), 0)
    kinds = [(index, message.kind) for index, message in job_state.outbox]
    assert kinds == [(0, "start"), (1, "start"), (2, "start")]


def test_those_who_wait_hear_who_is_missing():
    job_state = JobState(WORKERS, limits(), now=0)
    job_state.add_worker(0, body(0), 0)
    run_until(job_state, 6)
    ((index, message),) = told(job_state)
    assert (index, message.kind) == (0, "waiting")
    assert message["text"] == ("5 s of 60 for worker 1 (h1:1), worker 2 (h2:1) to join")


def test_missing_workers_are_named_at_the_deadline():
    job_state = JobState(WORKERS, limits(60, 90), now=0)
    job_state.add_worker(0, body(0), 0)
    assert run_until(job_state, 100) == 60
    assert job_state.failure.error == "CollectiveTimeout"
    assert "Missing: worker 1 (h1:1), worker 2 (h2:1)" in job_state.failure.message


def test_different_configuration_is_named():
    job_state = JobState(WORKERS, limits(), now=0)
    job_state.add_worker(0, body(0, workers={"worker 0": "h0:1"}, jax="1"), 0)
    job_state.add_worker(2, body(2, workers={"worker 0": "h9:1"}, jax="1"), 0)
    assert job_state.failure.error == "ProgramMismatch"
    assert job_state.failure.worker == 2
    assert (
        "`workers`: `worker 0` is 'h9:1' there and 'h0:1' here"
        in job_state.failure.message
    )


def test_exchange_answers_all_in_the_order_of_workers():
    job_state = start()
    for index in (2, 0, 1):
        fields = {"topic": "t"}
        job_state.receive(index, Message("exchange", fields, b"%d" % index), 0)
    assert [index for index, _ in job_state.outbox] == [0, 1, 2]
    assert job_state.outbox[0][1].payload == b"012"
    assert job_state.outbox[0][1]["counts_and_sizes"] == [[1, 1], [1, 1], [1, 1]]


def test_equal_payloads_of_an_exchange_are_sent_once():
    job_state = start()
    for index in range(3):
        fields = {"topic": "t"}
        job_state.receive(index, Message("exchange", fields, b"same"), 0)
    assert {message.payload for _, message in job_state.outbox} == {b"same"}


def test_different_topics_are_a_mismatch_naming_both():
    job_state = start()
    job_state.receive(0, Message("exchange", {"topic": "first"}), 0)
    job_state.receive(2, Message("exchange", {"topic": "second"}), 0)
    assert job_state.failure.error == "ProgramMismatch"
    assert "worker 2" in job_state.failure.message
    assert "'second'" in job_state.failure.message
    assert "'first'" in job_state.failure.message


def test_death_is_told_at_once_with_phase_and_step():
    job_state = start()
    tell(job_state, 1, 0, count=5, phase="run", step=4)
    job_state.disconnect(1, now=1)
    job_state.tick(1)
    failure = job_state.failure
    assert (failure.error, failure.worker, failure.host) == ("WorkerLost", 1, "m1")
    assert (failure.phase, failure.step) == ("run", 4)
    assert [index for index, _ in told(job_state)] == [0, 2]


def test_launcher_can_say_how_a_worker_died():
    job_state = JobState(WORKERS, limits(), now=0, is_launched=True)
    for index in range(3):
        job_state.add_worker(index, body(index), now=0)
    job_state.disconnect(0, now=1)
    job_state.tick(1.1)
    assert job_state.failure is None
    job_state.report_exit(0, "killed by SIGKILL", has_failed=True)
    job_state.tick(1.2)
    assert "died: killed by SIGKILL" in job_state.failure.message


def test_first_failure_is_the_verdict():
    job_state = start()
    job_state.receive(1, Message("failed", {"traceback": "here\nValueError: boom"}), 0)
    job_state.disconnect(0, now=0)
    job_state.tick(1)
    assert job_state.failure.error == "WorkerFailed"
    assert "ValueError: boom" in job_state.failure.details


def test_worker_that_leaves_is_no_failure():
    job_state = start()
    for index in range(3):
        job_state.receive(index, Message("leave"), 0)
        job_state.disconnect(index, now=0)
    job_state.tick(1)
    assert job_state.failure is None
    assert job_state.is_over


def test_wait_for_a_worker_that_has_left_is_a_mismatch():
    job_state = start()
    tell(job_state, 1, 0, count=4, phase="run", step=3)
    job_state.receive(1, Message("leave"), 0)
    tell(job_state, 0, 0, count=5, phase="run", step=4, waiting=0.0)
    assert run_until(job_state, 10) == 2
    assert job_state.failure.error == "ProgramMismatch"
    assert "has finished after phase 'run' after step 3" in job_state.failure.message


def test_different_phases_at_one_count_are_a_mismatch():
    job_state = start()
    tell(job_state, 0, 0, count=5, phase="run", step=4, waiting=0.0)
    tell(job_state, 1, 0, count=5, phase="reduce", waiting=0.0)
    assert run_until(job_state, 10) == 3.0
    assert job_state.failure.error == "ProgramMismatch"
    assert "phase 'reduce'" in job_state.failure.message
    assert "phase 'run' after step 4" in job_state.failure.message


def test_silence_is_a_loss_only_while_others_wait():
    job_state = start()
    run_until(job_state, 100)
    assert job_state.failure is None
    tell(job_state, 0, 100, count=5, phase="run", step=4, waiting=5.0)
    tell(job_state, 2, 100, count=5, phase="run", step=4, waiting=5.0)
    job_state.tick(100.5)
    assert job_state.failure.error == "WorkerLost"
    assert job_state.failure.worker == 1
    assert "has not been heard from for 100 s" in job_state.failure.message


@pytest.mark.parametrize(("last", "error"), [(0.0, None), (99.0, "WorkerLost")])
def test_silence_while_the_coordinator_was_stopped_proves_nothing(last, error):
    job_state = start()
    tell(job_state, 0, 0, count=5, phase="run", waiting=1.0, limit=20.0)
    job_state.restart_waits_after_pause(last, 100.0)
    job_state.tick(100.5)
    assert (job_state.failure and job_state.failure.error) == error


def test_stuck_worker_is_asked_for_its_stack():
    job_state = start()
    tell(job_state, 1, 0, count=4, phase="run", step=3)
    tell(job_state, 2, 0, count=5, phase="run", step=4)
    tell(job_state, 0, 0, count=5, phase="run", step=4, waiting=21.0, limit=20.0)
    job_state.tick(0.1)
    assert job_state.failure is None
    assert (1, "get_stack") in [
        (index, message.kind) for index, message in job_state.outbox
    ]
    stack = {"line": "load.py:3 in read", "text": "File load.py, line 3\n"}
    job_state.receive(1, Message("stack", stack), 0.2)
    job_state.tick(0.3)
    assert job_state.failure.error == "CollectiveTimeout"
    assert job_state.failure.worker == 1
    assert "is now at load.py:3 in read" in job_state.failure.message
    assert "File load.py, line 3" in job_state.failure.details


def test_stuck_worker_that_does_not_answer_is_named_anyway():
    job_state = start()
    tell(job_state, 0, 0, count=5, phase="run", waiting=21.0, limit=20.0)
    job_state.tick(0.1)
    job_state.tick(1.2)
    assert job_state.failure.error == "CollectiveTimeout"


def test_wait_in_which_all_take_part_blames_nobody():
    job_state = start()
    for index in range(3):
        tell(
            job_state, index, 0, count=5, phase="run", step=4, waiting=21.0, limit=20.0
        )
    job_state.tick(0.1)
    assert job_state.failure.worker is None
    assert "all workers are there" in job_state.failure.message


def test_long_wait_is_reported_with_the_place_of_the_missing():
    job_state = start()
    tell(job_state, 1, 0, count=4, phase="run", step=3)
    tell(job_state, 0, 4, count=5, phase="run", step=4, waiting=9.0)
    job_state.states[2].progress = PhaseReport(count=5)
    job_state.tick(5.0)
    (question, report) = told(job_state)
    assert (question[0], question[1].kind) == (1, "get_stack")
    assert (report[0], report[1].kind) == (0, "waiting")
    assert "10 s in phase 'run' after step 4 for worker 1" in report[1]["text"]
    assert "silent for 5 s" in report[1]["text"]
    job_state.outbox.clear()
    job_state.tick(6.0)
    assert not told(job_state)


@pytest.mark.parametrize("kind", ["progress", "exchange", "stack"])
def test_messages_after_the_verdict_change_nothing(kind):
    job_state = start()
    job_state.receive(1, Message("failed", {"traceback": "boom"}), 0)
    failure = job_state.failure
    fields = {"topic": "t", "line": "", "text": ""}
    job_state.receive(0, Message(kind, fields), 1)
    job_state.tick(500)
    assert job_state.failure is failure


def test_coordinator_gives_signs_of_life():
    job_state = start()
    job_state.tick(1.0)
    assert [(i, m.kind) for i, m in job_state.outbox] == [
        (0, "heartbeat"),
        (1, "heartbeat"),
        (2, "heartbeat"),
    ]


def test_worker_that_ends_before_it_joins_is_lost():
    job_state = JobState(WORKERS, limits(), now=0)
    job_state.add_worker(0, body(0), 0)
    job_state.report_exit(1, "exit code 1", has_failed=True)
    assert job_state.failure.error == "WorkerLost"
    assert "ended before it joined: exit code 1" in job_state.failure.message


def test_worker_that_ends_well_is_missed_only_by_those_that_join():
    job_state = JobState(WORKERS, limits(), now=0, is_launched=True)
    job_state.report_exit(1, "exit code 0", has_failed=False)
    job_state.tick(1)
    assert job_state.failure is None
    assert job_state.add_worker(0, body(0), 2) is None
    assert (job_state.failure.error, job_state.failure.worker) == ("WorkerLost", 1)
    assert [(i, m.kind) for i, m in told(job_state)] == [(0, "failure")]


def test_workers_that_all_end_without_joining_end_a_job_well():
    job_state = JobState(WORKERS, limits(), now=0, is_launched=True)
    for index in range(3):
        assert not job_state.is_over
        job_state.report_exit(index, "exit code 0", has_failed=False)
    job_state.tick(1)
    assert job_state.is_over
    assert job_state.failure is None


def test_time_to_join_begins_with_the_first_worker():
    job_state = JobState(WORKERS, limits(60, 1000), now=0, is_launched=True)
    job_state.tick(500)
    assert job_state.failure is None
    job_state.add_worker(0, body(0), 500)
    job_state.tick(559)
    assert job_state.failure is None
    job_state.tick(561)
    assert (job_state.failure.error, job_state.failure.worker) == (
        "CollectiveTimeout",
        1,
    )


@pytest.mark.parametrize("has_failed", [True, False])
def test_worker_that_left_and_ends_with_a_failure_code_has_failed(has_failed):
    job_state = start()
    job_state.receive(1, Message("leave"), 0)
    job_state.report_exit(1, "exit code 3", has_failed)
    job_state.tick(1)
    assert (job_state.failure is not None) == has_failed


WAITS = pytest.mark.parametrize(
    "progress", [{"has_broken_connection": True}, {"waiting": 6.0}]
)


def start_with_waiting_worker(progress):
    """A job in which worker 0 misses worker 1, which has left but not ended."""
    job_state = JobState(WORKERS, limits(), now=0, is_launched=True)
    for index in range(3):
        job_state.add_worker(index, body(index), now=0)
    job_state.receive(1, Message("leave"), 0)
    missing = PhaseReport(count=5, phase="run", **progress).as_fields()
    job_state.receive(0, Message("progress", missing), 0)
    return job_state


@WAITS
@pytest.mark.parametrize(
    ("code", "error"), [(0, "ProgramMismatch"), (3, "WorkerFailed")]
)
def test_wait_for_a_worker_that_left_is_explained_by_its_exit(progress, code, error):
    job_state = start_with_waiting_worker(progress)
    job_state.tick(7.0)
    assert job_state.failure is None
    job_state.report_exit(1, f"exit code {code}", has_failed=code != 0)
    job_state.tick(7.1)
    assert job_state.failure.error == error


@WAITS
def test_wait_for_a_worker_that_left_and_does_not_end_is_a_mismatch(progress):
    job_state = start_with_waiting_worker(progress)
    job_state.tick(8.0)
    assert job_state.failure.error == "ProgramMismatch"


def test_workers_that_all_hang_are_found():
    job_state = start()
    for index in range(3):
        tell(job_state, index, 0, count=5, phase="run", step=4)
    assert run_until(job_state, 2000) == 900.5
    failure = job_state.failure
    assert (failure.error, failure.worker) == ("CollectiveTimeout", None)
    assert "No worker has entered a collective for 900 s" in failure.message
    assert "worker 2 (h2:1, process 2 on m2) was last in phase 'run'" in failure.message


def test_time_before_the_last_worker_joins_is_not_idle():
    job_state = JobState(WORKERS, limits(2000, 30), now=0)
    for index in range(3):
        job_state.add_worker(index, body(index), now=1000)
    job_state.tick(1001)
    assert job_state.failure is None


@pytest.mark.parametrize(
    "index", [0, 1], ids=["one waits for its devices", "one has left"]
)
def test_workers_are_not_idle_while(index):
    job_state = start()
    tell(job_state, 0, 0, count=1)
    if index == 0:
        tell(job_state, 0, 0, count=1, waiting=0.0, limit=5000.0)
        for silent in range(3):
            job_state.states[silent].last_heard = 5000
    else:
        job_state.receive(1, Message("leave"), 0)
    run_until(job_state, 2000)
    assert job_state.failure is None


def test_silent_worker_is_found_before_all_have_joined():
    job_state = JobState(WORKERS, limits(300, 30), now=0)
    job_state.add_worker(0, body(0), 0)
    job_state.add_worker(1, body(1), 0)
    for now in range(0, 60, 10):
        tell(job_state, 1, now)
        job_state.tick(now + 1)
    assert (job_state.failure.error, job_state.failure.worker) == ("WorkerLost", 0)


def test_compilation_is_named_and_has_a_longer_limit():
    job_state = start()
    for index in range(3):
        wait = {"count": 5, "phase": "run", "waiting": 21.0, "limit": 20.0}
        tell(job_state, index, 0, **wait, is_compiling=index == 1)
    job_state.tick(0.1)
    assert job_state.failure is None
    (*_, (_, report)) = told(job_state)
    assert "all workers are there, and compiling: worker 1" in report["text"]
    for index in range(3):
        tell(job_state, index, 1, **{**wait, "waiting": 901.0}, is_compiling=True)
    job_state.tick(1.1)
    assert job_state.failure.error == "CollectiveTimeout"


def test_late_worker_is_told_why_the_job_has_failed():
    job_state = JobState(WORKERS, limits(), now=0)
    job_state.add_worker(0, body(0), 0)
    job_state.disconnect(0, now=1)
    job_state.tick(2)
    job_state.report_exit(1, "exit code 1", has_failed=True)
    assert not job_state.is_over
    assert job_state.add_worker(2, body(2), 3) is None
    assert [(i, m.kind) for i, m in told(job_state)] == [(2, "failure")]
    job_state.disconnect(2, now=4)
    assert job_state.is_over


def test_stopped_worker_is_blamed_when_all_are_at_one_place():
    job_state = start()
    for index in range(3):
        tell(job_state, index, 0, count=5, phase="run", waiting=0.0, limit=4.0)
    for index in (0, 2):
        tell(job_state, index, 4, count=5, phase="run", waiting=4.0, limit=4.0)
    job_state.tick(4.1)
    assert (job_state.failure.error, job_state.failure.worker) == ("WorkerLost", 1)


def test_all_stop_after_a_step_that_none_has_passed():
    job_state = start()
    job_state.receive(2, Message("stop"), 1)
    job_state.tick(1)
    assert [(i, m.kind) for i, m in told(job_state)] == [
        (index, "count_steps") for index in range(3)
    ]
    job_state.outbox.clear()
    for index, count in enumerate([7, 9]):
        job_state.receive(index, Message("steps", {"count": count}), 1)
    job_state.tick(1)
    assert not told(job_state)
    # The last one ends before it answers, and is not waited for.
    job_state.receive(2, Message("leave"), 1)
    job_state.receive(0, Message("stop"), 1)
    for _ in range(2):
        job_state.tick(1)
    assert [(i, m.kind, m["step"]) for i, m in told(job_state)] == [
        (0, "stop_after", 10),
        (1, "stop_after", 10),
    ]
