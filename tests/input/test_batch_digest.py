"""Whether workers have read the same batches."""

import pytest

from mirrax.collectives.program_order import ProgramLog
from mirrax.errors import ProgramMismatch
from mirrax.input.batch_digest import BatchLog
from tests.peers import meet, topology_of


def reading(digests, programs_per_batch=1):
    """Returns a worker that reads batches and runs programs on them."""

    def work(job):
        log = ProgramLog(topology_of(job))
        batches = BatchLog()
        log.compare_along(batches)
        for digest in digests:
            batches.append(digest)
            for _ in range(programs_per_batch):
                log.add("run")
        return len(digests)

    return work


def test_workers_that_read_the_same_batches_are_left_alone():
    assert meet(*[reading([str(i) for i in range(100)])] * 2) == [100, 100]


@pytest.mark.parametrize("number", [1, 3, 40, 100])
def test_batch_that_differs_is_named_on_every_worker(number):
    digests = [f"d{i}" for i in range(1, 200)]
    others = list(digests)
    others[number - 1] = "other"
    errors = meet(reading(digests), reading(others), reading(digests))
    assert [type(error) for error in errors] == [ProgramMismatch] * 3
    assert f"batch {number} has the checksum d{number} on worker 0 and other on" in str(
        errors[0]
    )
    assert "Seed what shuffles" in str(errors[0])


def test_worker_that_reads_ahead_is_left_alone():
    def peeking(job):
        log = ProgramLog(topology_of(job))
        batches = BatchLog()
        log.compare_along(batches)
        batches.append("a")
        batches.append("b")
        log.add("run")

    def steady(job):
        log = ProgramLog(topology_of(job))
        batches = BatchLog()
        log.compare_along(batches)
        batches.append("a")
        log.add("run")

    assert meet(peeking, steady) == [None, None]
