"""The examples run, and do what they say."""

import pathlib
import subprocess
import sys

import pytest

from examples import (
    accumulation,
    checkpoints,
    equinox_optax,
    linen,
    memory_limit,
    nnx,
    sharded_state,
)

FOLDER = pathlib.Path(nnx.__file__).parent
ELSEWHERE = {"memory_limit", "keras_fit", "keras_custom_loop"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted({path.stem for path in FOLDER.glob("*.py")} - ELSEWHERE)
)
def test_example_runs_as_its_docstring_says(name):
    command = [sys.executable, FOLDER / f"{name}.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr


def test_nnx_learns():
    losses = nnx.main(epochs=3)
    assert losses[-1] < 0.5 * losses[0]


def test_equinox_and_optax_learn():
    losses = equinox_optax.main()
    assert losses[-1] < 0.5 * losses[0]


def test_linen_learns():
    losses = linen.main()
    assert losses[-1] < 0.5 * losses[0]


def test_checkpoints_go_on_exactly():
    assert checkpoints.main()


def test_accumulation_gives_the_same():
    assert accumulation.main() < 1e-5


def test_sharded_state_needs_less_memory_for_the_same_losses():
    results = sharded_state.main()
    (mirrored, mirrored_report), (sharded, report) = results.values()
    assert sharded == pytest.approx(mirrored, rel=1e-5)
    # One program for full batches, and one for the last, partial one.
    pairs = list(zip(mirrored_report.programs, report.programs, strict=True))
    assert len(pairs) == 2
    for before, after in pairs:
        assert after.arguments < 0.4 * before.arguments


@pytest.mark.slow
def test_adam_fits_into_a_memory_limit_only_when_it_is_sharded():
    results = memory_limit.main()
    code, output = results["mirrored"]
    assert code == 1, output
    assert "out of memory: " in output
    assert "shard_state=True" in output
    code, output = results["sharded"]
    assert code == 0, output
    first, *_, last = map(float, output.split("losses:")[1].split())
    assert last < first
