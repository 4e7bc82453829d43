"""Programs over several workers, which must not wait forever."""

import jax
import jax.numpy as jnp
import pytest

from mirrax.collectives.program_order import program_log_of
from mirrax.collectives.worker_guard import guarded
from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch
from tests.peers import FakeJob


@pytest.fixture(autouse=True)
def new_trails():
    """Every test begins with no programs run."""
    program_log_of.cache_clear()
    yield
    program_log_of.cache_clear()


def topology_of(job):
    return Topology((jax.devices("cpu")[0],), job=job)


def test_program_of_one_process_is_left_as_it_is():
    program = jax.jit(lambda x: x)
    assert guarded(topology_of(None), "reduce", program) is program


def test_program_gets_its_inputs_and_gives_its_results():
    program = guarded(topology_of(FakeJob()), "reduce", lambda a, b: {"sum": a + b})
    assert program(jnp.ones(2), 1)["sum"].tolist() == [2, 2]


def test_program_without_inputs_or_results_is_run():
    ran = []
    program = guarded(topology_of(FakeJob()), "reduce", lambda: ran.append(1))
    assert program() is None
    assert ran == [1]


def test_program_runs_inside_the_guard_of_its_phase():
    job = FakeJob()

    def program():
        job.guarded.append("run")

    guarded(topology_of(job), "reduce SUM", program)()
    assert job.guarded == ["enter reduce SUM", "run", "leave reduce SUM"]


def test_results_are_waited_for_inside_the_guard():
    job = FakeJob()

    class Pending:
        def block_until_ready(self):
            job.guarded.append("ready")
            return self

    guarded(topology_of(job), "run", lambda: [Pending()])()
    assert job.guarded == ["enter run", "ready", "leave run"]


def test_error_of_a_program_comes_through_the_guard():
    job = FakeJob()

    def program():
        raise OSError("the other one is gone")

    with pytest.raises(OSError, match="the other one is gone"):
        guarded(topology_of(job), "run", program)()
    assert job.guarded == ["enter run", "leave run"]


def test_every_call_is_noted():
    job = FakeJob()
    program = guarded(topology_of(job), "run", lambda: None)
    assert job.topics == []
    program()
    program()
    assert job.topics == [
        "order of programs, after 1",
        "order of programs, after 2",
    ]


def test_programs_over_the_same_devices_are_noted_together():
    job = FakeJob()
    guarded(topology_of(job), "first", lambda: None)()
    guarded(topology_of(job), "second", lambda: None)()
    assert job.topics[-1] == "order of programs, after 2"


def test_program_does_not_run_when_workers_disagree():
    def answer(topic, payload):
        is_order = topic.startswith("order")
        return [payload, b"[7, {}]" if is_order else b'["something else"]']

    job, ran = FakeJob(answer), []
    with pytest.raises(ProgramMismatch, match="ran reduce and worker 1 ran something"):
        guarded(topology_of(job), "reduce", lambda: ran.append(1))()
    assert (ran, job.guarded) == ([], [])
