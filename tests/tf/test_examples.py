"""The example programs run as they stand."""

import os
import pathlib
import subprocess
import sys

import pytest

from mirrax.tf.migration.migrate import examine

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "tf"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def run(*command):
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def launch(name, *arguments):
    return run("-m", "mirrax.launch", "-n", "2", str(FOLDER / name), *arguments)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_only_the_import_is_mirrax(path):
    source = path.read_text()
    assert source.count("mirrax.tf") == 1
    ported = source.replace("import mirrax.tf as tf", "import tensorflow as tf")
    assert [f for f in examine(ported) if f.kind == "missing"] == []


@pytest.mark.slow
def test_custom_training_loop_learns():
    output = run(str(FOLDER / "custom_training_loop.py"))
    assert "Number of replicas: 2" in output
    assert "test accuracy 1.000" in output.splitlines()[-1]


@pytest.mark.slow
def test_workers_train_a_keras_model_alike():
    lines = launch("multi_worker_keras.py").splitlines()
    losses = {line.split("losses")[1] for line in lines if "losses" in line}
    assert len(losses) == 1


@pytest.mark.slow
def test_workers_go_on_where_they_were(tmp_path):
    first = launch("multi_worker_custom_loop.py", str(tmp_path))
    assert first.count("epoch 3: loss") == 2
    again = launch("multi_worker_custom_loop.py", str(tmp_path))
    assert again.count("goes on with epoch 4") == 2
