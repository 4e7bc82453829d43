"""Random programs compute on replicas what they compute in NumPy."""

import pytest

from mirrax.testing import launch_processes
from tests.programs import mirrored
from tests.random_programs import ENGINES, Program, check, check_on_workers


@pytest.mark.parametrize("num_replicas", [1, 2, 4])
@pytest.mark.parametrize("engine", ENGINES)
def test_program_computes_what_numpy_does(engine, num_replicas):
    # Other programs for each way to run them; soak/random_programs.py runs many more.
    program = Program.make(10 * num_replicas + ENGINES.index(engine))
    check(program, mirrored(num_replicas), engine)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2], ids=["2x1", "2x2"])
def test_programs_on_two_workers_compute_what_numpy_does(devices):
    answers = launch_processes(
        check_on_workers, 2, (500 * devices, 6), devices=devices, timeout=500
    )
    assert answers == [{}, {}]
