"""The coordinator's judgement, on moments that the tests make up."""

import pytest

from mirrax.cluster.coordinator.job_state import JobState
from mirrax.cluster.failure import Position
from mirrax.cluster.membership import Worker
from mirrax.cluster.net.messages import Message

WORKERS = [Worker("worker", index, f"h{index}:1") for index in range(3)]


def body(index, **configuration):
    return {"hostname": f"m{index}", "pid": index, "configuration": configuration}


def start():
    hub = JobState(WORKERS, join_timeout=60, silence_timeout=30, now=0)
    for index in range(3):
        assert hub.join(index, body(index), now=0) is None
    hub.outbox.clear()
    return hub


def tell(hub, index, now, **position):
    hub.receive(index, Message("position", Position(**position).as_fields()), now)


def told(hub):
    """What the hub has sent, except its signs of life."""
    return [(index, m) for index, m in hub.outbox if m.kind != "beat"]


def run_until(hub, now):
    moment = 0.0
    while moment < now and hub.failure is None:
        moment += 0.5
        hub.tick(moment)
    return moment


def test_all_are_told_to_go_when_the_last_joins():
    hub = JobState(WORKERS, join_timeout=60, silence_timeout=30, now=0)
    hub.join(2, body(2), 0)
    hub.join(0, body(0), 0)
    assert not hub.outbox
    hub.join(1, body(1), 0)
    kinds = [(index, message.kind) for index, message in hub.outbox]
    assert kinds == [(0, "go"), (1, "go"), (2, "go")]


def test_those_who_wait_hear_who_is_missing():
    hub = JobState(WORKERS, join_timeout=60, silence_timeout=30, now=0)
    hub.join(0, body(0), 0)
    run_until(hub, 6)
    ((index, message),) = told(hub)
    assert (index, message.kind) == (0, "waiting")
    assert message["text"] == ("5 s of 60 for worker 1 (h1:1), worker 2 (h2:1) to join")


def test_missing_workers_are_named_at_the_deadline():
    hub = JobState(WORKERS, join_timeout=60, silence_timeout=30, now=0)
    hub.join(0, body(0), 0)
    assert run_until(hub, 100) == 60
    assert hub.failure.error == "CollectiveTimeout"
    assert "Missing: worker 1 (h1:1), worker 2 (h2:1)" in hub.failure.message


def test_different_configuration_is_named():
    hub = JobState(WORKERS, join_timeout=60, silence_timeout=30, now=0)
    hub.join(0, body(0, workers={"worker 0": "h0:1"}, jax="1"), 0)
    hub.join(2, body(2, workers={"worker 0": "h9:1"}, jax="1"), 0)
    assert hub.failure.error == "ProgramMismatch"
    assert hub.failure.worker == 2
    assert (
        "`workers`: `worker 0` is 'h9:1' there and 'h0:1' here" in hub.failure.message
    )


def test_second_process_with_one_index_is_refused():
    hub = start()
    reason = hub.join(1, body(7), now=1)
    assert "worker 1 (h1:1) again, from m7 (process 7); the first is m1" in reason
    assert hub.failure is None


def test_exchange_answers_all_in_the_order_of_workers():
    hub = start()
    for index in (2, 0, 1):
        fields = {"number": 0, "topic": "t"}
        hub.receive(index, Message("exchange", fields, b"%d" % index), 0)
    assert [index for index, _ in hub.outbox] == [0, 1, 2]
    assert hub.outbox[0][1].payload == b"012"
    assert hub.outbox[0][1]["sizes"] == [1, 1, 1]


def test_different_topics_are_a_mismatch_naming_both():
    hub = start()
    hub.receive(0, Message("exchange", {"number": 0, "topic": "first"}), 0)
    hub.receive(2, Message("exchange", {"number": 0, "topic": "second"}), 0)
    assert hub.failure.error == "ProgramMismatch"
    assert "worker 2" in hub.failure.message
    assert "'second'" in hub.failure.message
    assert "'first'" in hub.failure.message


def test_death_is_told_at_once_with_phase_and_step():
    hub = start()
    tell(hub, 1, 0, count=5, phase="run", step=4)
    hub.disconnect(1, now=1)
    hub.tick(1)
    failure = hub.failure
    assert (failure.error, failure.worker, failure.host) == ("WorkerLost", 1, "m1")
    assert (failure.phase, failure.step) == ("run", 4)
    assert [index for index, _ in told(hub)] == [0, 2]


def test_launcher_can_say_how_a_worker_died():
    hub = JobState(WORKERS, join_timeout=60, silence_timeout=30, now=0, death_wait=0.5)
    for index in range(3):
        hub.join(index, body(index), now=0)
    hub.disconnect(0, now=1)
    hub.tick(1.1)
    assert hub.failure is None
    hub.explain_death(0, "killed by SIGKILL")
    hub.tick(1.2)
    assert "died: killed by SIGKILL" in hub.failure.message


def test_first_failure_is_the_verdict():
    hub = start()
    hub.receive(1, Message("failed", {"traceback": "ValueError: boom"}), 0)
    hub.disconnect(0, now=0)
    hub.tick(1)
    assert hub.failure.error == "WorkerFailed"
    assert "ValueError: boom" in hub.failure.details


def test_worker_that_leaves_is_no_failure():
    hub = start()
    for index in range(3):
        hub.receive(index, Message("bye"), 0)
        hub.disconnect(index, now=0)
    hub.tick(1)
    assert hub.failure is None
    assert hub.is_over


def test_wait_for_a_worker_that_has_left_is_a_mismatch():
    hub = start()
    tell(hub, 1, 0, count=4, phase="run", step=3)
    hub.receive(1, Message("bye"), 0)
    tell(hub, 0, 0, count=5, phase="run", step=4, waiting=0.0)
    assert run_until(hub, 10) == 2
    assert hub.failure.error == "ProgramMismatch"
    assert "has finished after phase 'run', step 3" in hub.failure.message


def test_different_phases_at_one_count_are_a_mismatch():
    hub = start()
    tell(hub, 0, 0, count=5, phase="run", step=4, waiting=0.0)
    tell(hub, 1, 0, count=5, phase="reduce", waiting=0.0)
    assert run_until(hub, 10) == 3.0
    assert hub.failure.error == "ProgramMismatch"
    assert "phase 'reduce'" in hub.failure.message
    assert "phase 'run', step 4" in hub.failure.message


def test_silence_is_a_loss_only_while_others_wait():
    hub = start()
    run_until(hub, 100)
    assert hub.failure is None
    tell(hub, 0, 100, count=5, phase="run", step=4, waiting=5.0)
    tell(hub, 2, 100, count=5, phase="run", step=4, waiting=5.0)
    hub.tick(100.5)
    assert hub.failure.error == "WorkerLost"
    assert hub.failure.worker == 1
    assert "has not been heard of for 100 s" in hub.failure.message


def test_stuck_worker_is_asked_for_its_stack():
    hub = start()
    tell(hub, 1, 0, count=4, phase="run", step=3)
    tell(hub, 2, 0, count=5, phase="run", step=4)
    tell(hub, 0, 0, count=5, phase="run", step=4, waiting=21.0, limit=20.0)
    hub.tick(0.1)
    assert hub.failure is None
    assert (1, "where") in [(index, message.kind) for index, message in hub.outbox]
    stack = {"line": "load.py:3 in read", "text": "File load.py, line 3\n"}
    hub.receive(1, Message("stack", stack), 0.2)
    hub.tick(0.3)
    assert hub.failure.error == "CollectiveTimeout"
    assert hub.failure.worker == 1
    assert "is now at load.py:3 in read" in hub.failure.message
    assert "File load.py, line 3" in hub.failure.details


def test_stuck_worker_that_does_not_answer_is_named_anyway():
    hub = start()
    tell(hub, 0, 0, count=5, phase="run", waiting=21.0, limit=20.0)
    hub.tick(0.1)
    hub.tick(1.2)
    assert hub.failure.error == "CollectiveTimeout"


def test_wait_in_which_all_take_part_blames_nobody():
    hub = start()
    for index in range(3):
        tell(hub, index, 0, count=5, phase="run", step=4, waiting=21.0, limit=20.0)
    hub.tick(0.1)
    assert hub.failure.worker is None
    assert "all workers are there" in hub.failure.message


def test_long_wait_is_reported_with_the_place_of_the_missing():
    hub = start()
    tell(hub, 1, 0, count=4, phase="run", step=3)
    tell(hub, 0, 4, count=5, phase="run", step=4, waiting=9.0)
    hub.states[2].position = Position(count=5)
    hub.tick(5.0)
    (question, report) = told(hub)
    assert (question[0], question[1].kind) == (1, "where")
    assert (report[0], report[1].kind) == (0, "waiting")
    assert "10 s in phase 'run', step 4 for worker 1" in report[1]["text"]
    assert "silent for 5 s" in report[1]["text"]
    hub.outbox.clear()
    hub.tick(6.0)
    assert not told(hub)


@pytest.mark.parametrize("kind", ["position", "exchange", "stack"])
def test_messages_after_the_verdict_change_nothing(kind):
    hub = start()
    hub.receive(1, Message("failed", {"traceback": "boom"}), 0)
    failure = hub.failure
    fields = {"number": 0, "topic": "t", "line": "", "text": ""}
    hub.receive(0, Message(kind, fields), 1)
    hub.tick(500)
    assert hub.failure is failure


def test_coordinator_gives_signs_of_life():
    hub = start()
    hub.tick(1.0)
    assert [(i, m.kind) for i, m in hub.outbox] == [
        (0, "beat"),
        (1, "beat"),
        (2, "beat"),
    ]


def test_worker_that_ends_before_it_joins_is_lost():
    hub = JobState(WORKERS, join_timeout=60, silence_timeout=30, now=0)
    hub.join(0, body(0), 0)
    hub.explain_death(1, "exit code 1")
    assert hub.failure.error == "WorkerLost"
    assert "ended before it joined: exit code 1" in hub.failure.message


def test_late_worker_is_told_why_the_job_has_failed():
    hub = JobState(WORKERS, join_timeout=60, silence_timeout=30, now=0)
    hub.join(0, body(0), 0)
    hub.disconnect(0, now=1)
    hub.tick(2)
    hub.explain_death(1, "exit code 1")
    assert not hub.is_over
    assert hub.join(2, body(2), 3) is None
    assert [(i, m.kind) for i, m in told(hub)] == [(2, "failure")]
    hub.disconnect(2, now=4)
    assert hub.is_over


def test_stopped_worker_is_blamed_when_all_are_at_one_place():
    hub = start()
    for index in range(3):
        tell(hub, index, 0, count=5, phase="run", waiting=0.0, limit=4.0)
    for index in (0, 2):
        tell(hub, index, 4, count=5, phase="run", waiting=4.0, limit=4.0)
    hub.tick(4.1)
    assert (hub.failure.error, hub.failure.worker) == ("WorkerLost", 1)
