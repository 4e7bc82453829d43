"""Whether workers have run the same programs in the same order."""

import pytest

from mirrax.collectives.program_order import ProgramLog, program_log_of
from mirrax.errors import ProgramMismatch
from tests.peers import FakeJob, meet, topology_of


def running(names):
    """Returns a worker that runs these programs, and tells how many it did run."""

    def work(job):
        trail = ProgramLog(topology_of(job))
        for name in names:
            trail.add(name)
        return len(names)

    return work


def counts_compared(num_programs):
    job = FakeJob()
    running(["run"] * num_programs)(job)
    return [int(topic.split()[-1]) for topic in job.topics]


def test_workers_compare_often_at_first_and_then_at_equal_distances():
    assert counts_compared(330) == [1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 320]


def test_nothing_is_compared_before_a_program_runs():
    assert counts_compared(0) == []


def test_workers_that_run_the_same_are_left_alone():
    names = [f"program {i % 7}" for i in range(200)]
    assert meet(running(names), running(names)) == [200, 200]


def test_every_worker_raises_when_the_first_program_is_another_one():
    errors = meet(running(["reduce"]), running(["gather"]))
    assert [type(error) for error in errors] == [ProgramMismatch] * 2
    message = (
        "All workers must run the same programs in the same order. Received: as number "
        "1 worker 0 ran reduce and worker 1 ran gather; their results since then are "
        "wrong. Do not make `run`, or a read that combines replicas, depend on the "
        "worker."
    )
    assert [str(error) for error in errors] == [message] * 2


@pytest.mark.parametrize("number", [3, 4, 65, 128, 129, 192, 300, 320])
def test_program_that_differs_is_named_with_its_number(number):
    names = [f"program {i}" for i in range(1, 321)]
    others = list(names)
    others[number - 1] = "another"
    error, _ = meet(running(names), running(others))
    assert (
        f"number {number} worker 0 ran program {number} and worker 1 ran another"
        in (str(error))
    )


def test_programs_in_another_order_are_found_out():
    error, _ = meet(running(["a", "b", "c", "d"]), running(["a", "b", "d", "c"]))
    assert "as number 3 worker 0 ran c and worker 1 ran d" in str(error)


def test_names_are_told_apart_where_they_meet():
    names, others = ["x", "x", "ab", "c"], ["x", "x", "a", "bc"]
    error, _ = meet(running(names), running(others))
    assert "as number 3 worker 0 ran ab and worker 1 ran a;" in str(error)


def test_worker_that_differs_from_the_first_is_named():
    same, other = running(["a", "b"]), running(["a", "c"])
    errors = meet(same, same, other)
    assert [error.worker for error in errors] == [2, 2, 2]
    assert "worker 0 ran b and worker 2 ran c" in str(errors[0])


def test_names_may_have_any_letters():
    error, _ = meet(running(["größe"]), running(["größer"]))
    assert "ran größe and worker 1 ran größer" in str(error)


def test_strategies_over_the_same_devices_have_one_trail():
    program_log_of.cache_clear()
    assert program_log_of(topology_of()) is program_log_of(topology_of())
    assert program_log_of(topology_of()) is not program_log_of(
        topology_of(num_devices=2)
    )
