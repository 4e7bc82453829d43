"""Programs that say `import tensorflow` run unchanged."""

import importlib
import subprocess
import sys
import textwrap

import pytest

import mirrax.tf
from mirrax.launch import cli
from mirrax.tf.__main__ import main

PROGRAM = """
import sys
import numpy as np
import tensorflow as tf
import tensorflow
import tensorflow.compat.v1 as tf1
import tensorflow.compat.v2 as tf2
import tensorflow.keras.layers
import tensorflow.config.experimental
import keras
from tensorflow import keras as own_keras
from tensorflow.keras import layers
from tensorflow.keras.layers import Dense
from tensorflow.keras.preprocessing.image import ImageDataGenerator
from tensorflow.keras.preprocessing.sequence import pad_sequences
from tensorflow.compat.v1.keras import losses
from tensorflow.experimental import numpy as tnp
import tensorflow.experimental.numpy
import tensorflow.optimizers

assert tf is tensorflow is tf2
assert tf.__name__ == "mirrax.tf"
assert Dense is layers.Dense is keras.layers.Dense is tf.keras.layers.Dense
assert own_keras.losses.Reduction.NONE == losses.Reduction.NONE == "none"
assert tf1.keras is tf.keras
assert tensorflow.optimizers is tf.keras.optimizers
assert float(tnp.sum(tnp.ones(3))) == 3
assert keras.backend.backend() == "jax"
assert tf.zeros([2, 3]).shape.as_list() == [2, 3]
assert tf.zeros([2]).dtype.is_floating and tf.int32.max == 2**31 - 1
try:
    from tensorflow.python.framework import ops
except ImportError as error:
    print(error)
try:
    import tensorflow.lite
except ImportError as error:
    print(error)
try:
    from tensorflow.experimental import dtensor
except ImportError as error:
    print(error)


@tf.function
def compiled(x):
    # Keras must not take our tracing for a graph of TensorFlow.
    return keras.layers.Rescaling(2.0)(x)


print(compiled(tf.constant([1.0])).numpy(), sys.argv[1:], __name__)
"""


def run(*arguments):
    done = subprocess.run(
        [sys.executable, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def test_program_that_imports_tensorflow_runs_unchanged(program):
    lines = run("-m", "mirrax.tf", str(program), "--epochs", "3").splitlines()
    assert "`tensorflow.python.framework`. It is private" in lines[0]
    assert "has no `tensorflow.lite`. Use `jax.export`" in lines[1]
    assert "no `tf.experimental.dtensor`. Use `jax.sharding`" in lines[2]
    assert lines[3] == "[2.] ['--epochs', '3'] __main__"


def test_program_runs_other_files(tmp_path):
    other = tmp_path / "other.py"
    other.write_text("import tensorflow as tf\nprint(tf.ones([2, 3]).shape)\n")
    path = tmp_path / "train.py"
    path.write_text(f"import runpy\nrunpy.run_path({str(other)!r})\n")
    assert run("-m", "mirrax.tf", str(path)) == "(2, 3)\n"


def test_traceback_begins_in_the_program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("import tensorflow as tf\ntf.reshape(tf.ones(3), [2])\n")
    done = subprocess.run(
        [sys.executable, "-m", "mirrax.tf", str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    start = f'Traceback (most recent call last):\n  File "{path}", line 2'
    assert start in done.stderr


@pytest.mark.slow
def test_modules_run_unchanged(program, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(program.parent))
    assert "[] __main__" in run("-m", "mirrax.tf", "-m", "train")


@pytest.mark.slow
def test_launched_workers_run_the_program_unchanged(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        textwrap.dedent(
            """
            import tensorflow as tf

            strategy = tf.distribute.MultiWorkerMirroredStrategy()
            ones = strategy.run(lambda: tf.constant(1.0))
            print("sum", strategy.reduce("SUM", ones, axis=None).numpy())
            """
        )
    )
    output = run("-m", "mirrax.launch", "-n", "2", "-m", "mirrax.tf", str(path))
    assert output.count("sum 2.0") == 2


def test_tensorflow_is_answered_only_on_request():
    program = (
        "import mirrax.tf, importlib.util as u; print(u.find_spec('tensorflow'))\n"
        "mirrax.tf.install(); mirrax.tf.install()\n"
        "import tensorflow.math as m; print(m.__name__)"
    )
    assert run("-c", program).split() == ["None", "mirrax.tf.math"]


def test_installing_after_tensorflow_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    with pytest.raises(RuntimeError, match="before TensorFlow is imported"):
        mirrax.tf.install()


def test_missing_program_is_refused(capsys):
    assert main(["nowhere.py"]) == 2
    assert "Received: nowhere.py" in capsys.readouterr().err
    assert cli.SUBCOMMANDS["tf"][0] == "mirrax.tf.__main__"


def test_only_the_program_is_required(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().err.endswith("arguments are required: script\n")


@pytest.mark.parametrize("name", ["tensorflow_hub", "tensorflow_hub.tools"])
def test_missing_packages_that_need_tensorflow_have_advice(tmp_path, name):
    path = tmp_path / "train.py"
    path.write_text(f"import tensorflow as tf\nimport {name}\n")
    done = subprocess.run(
        [sys.executable, "-m", "mirrax.tf", str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert "No module named 'tensorflow_hub'\nIt needs TensorFlow. Use" in done.stderr


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("mirrax.tf.keras.layers", "tf.keras.layers"),
        ("mirrax.tf.keras.preprocessing.image", "tf.keras.preprocessing.image"),
        ("mirrax.tf.compat.v1.keras", "tf.keras"),
        ("mirrax.tf.compat.v2", "tf"),
        ("mirrax.tf.compat.v2.keras.losses", "tf.keras.losses"),
        ("mirrax.tf.experimental.numpy", "tf.experimental.numpy"),
        ("mirrax.tf.metrics", "tf.keras.metrics"),
        ("mirrax.tf.config.experimental", "tf.config.experimental"),
    ],
)
def test_modules_can_be_imported_by_name(name, same):
    found = mirrax.tf
    for part in same.split(".")[1:]:
        found = getattr(found, part)
    assert importlib.import_module(name) is found


def test_missing_modules_of_keras_are_named():
    with pytest.raises(ModuleNotFoundError, match=r"mirrax\.tf\.keras\.nothing"):
        importlib.import_module("mirrax.tf.keras.nothing")


def test_compat_modules_are_attributes():
    tf = mirrax.tf
    assert tf.compat.v2 is tf
    assert tf.compat.v1.keras is tf.keras
    with pytest.raises(AttributeError, match=r"tf\.compat\.v3"):
        _ = tf.compat.v3
