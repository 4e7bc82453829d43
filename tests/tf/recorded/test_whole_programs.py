"""Programs that say `import tensorflow` print the losses that TensorFlow printed."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tests.tf.recorded.record_whole_programs import (
    PROGRAMS,
    RESULTS,
    WORKER_PROGRAMS,
    losses_in,
)

EXPECTED = json.loads(RESULTS.read_text())


def test_every_program_is_recorded():
    assert list(EXPECTED) == [path.stem for path in (*PROGRAMS, *WORKER_PROGRAMS)]


def run(*command):
    done = subprocess.run(
        [sys.executable, "-m", *command],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def require_losses(path, output):
    found, expected = losses_in(output), EXPECTED[path.stem]
    assert [len(line) for line in found] == [len(line) for line in expected]
    for line, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(line, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_runs_unchanged_and_prints_tensorflows_losses(path):
    require_losses(path, run("mirrax.tf", str(path)))


@pytest.mark.slow
@pytest.mark.parametrize("path", WORKER_PROGRAMS, ids=lambda path: path.stem)
def test_program_runs_unchanged_on_two_workers(path, tmp_path):
    command = ["-n", "2", "-m", "mirrax.tf", str(path), "--folder", str(tmp_path)]
    lines = run("mirrax.launch", *command).splitlines()
    prefix = "[worker 0] "
    own = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
    require_losses(path, "\n".join(own))
