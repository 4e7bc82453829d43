"""Random programs compute on replicas what they compute in NumPy."""

import pytest

from tests.programs import mirrored
from tests.random_programs import ENGINES, Program, check


@pytest.mark.parametrize("num_replicas", [1, 2, 4])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(2))
def test_program_computes_what_numpy_does(seed, engine, num_replicas):
    # Other programs for each way to run them.
    program = Program.make(100 * seed + 10 * num_replicas + ENGINES.index(engine))
    check(program, mirrored(num_replicas), engine)
