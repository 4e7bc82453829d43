import subprocess
import sys

import pytest

from mirrax.tf.migration.migrate import examine, judge, main
from mirrax.tf.migration.source_names import ProgramNames


def names(source):
    return [use.name for use in ProgramNames(source).uses]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import tensorflow as tf\ntf.exp(1)", ["tf.exp"]),
        ("import tensorflow\ntensorflow.exp(1)", ["tf.exp"]),
        ("import tensorflow.compat.v1 as tf\ntf.Session()", ["tf.compat.v1.Session"]),
        ("from tensorflow import keras\nkeras.Input", ["tf.keras.Input"]),
        ("from tensorflow.keras import losses as l\nl.MSE", ["tf.keras.losses.MSE"]),
        ("from tensorflow import nn, exp\nexp(nn.relu(1))", ["tf.exp", "tf.nn.relu"]),
        ("from tensorflow.python.ops import x\nx.y", ["tf.ops.x.y"]),
        (
            "import tensorflow as tf\nD = tf.data.Dataset\nD.range(3)",
            ["tf.data.Dataset", "tf.data.Dataset.range"],
        ),
        ("def f():\n    return tf.exp(1)\nimport tensorflow as tf", ["tf.exp"]),
        ("import numpy as tf\ntf.exp(1)", []),
        ("from .tensorflow import exp\nexp(1)", []),
    ],
    ids=[
        "alias",
        "whole_name",
        "module_alias",
        "from",
        "from_alias",
        "several",
        "private",
        "assigned",
        "later",
        "numpy",
        "relative",
    ],
)  # fmt: skip
def test_names_are_found_through_aliases(source, expected):
    assert names(source) == expected


@pytest.mark.parametrize(
    ("statement", "replacement"),
    [
        ("import tensorflow as tf", "import mirrax.tf as tf"),
        ("import tensorflow", "import mirrax.tf as tensorflow"),
        ("import tensorflow.compat.v1 as tf", "import mirrax.tf.compat.v1 as tf"),
        ("from tensorflow import keras", "from mirrax.tf import keras"),
        (
            "from tensorflow.keras import layers as l",
            "from mirrax.tf.keras import layers as l",
        ),
        ("import tensorflow.keras as keras", "import mirrax.tf.keras as keras"),
        ("import os, tensorflow as tf", "import os, mirrax.tf as tf"),
        ("import tensorflow.nn as nn", "import mirrax.tf.nn as nn"),
    ],
)
def test_imports_are_rewritten(statement, replacement):
    (found,) = ProgramNames(statement).imports
    assert found.advice == f"write `{replacement}`"


@pytest.mark.parametrize(
    ("name", "kind", "advice"),
    [
        ("tf.reduce_sum", "ok", ""),
        ("tf.data.Dataset.from_tensor_slices", "ok", ""),
        ("tf.distribute.MirroredStrategy", "ok", ""),
        ("tf.random.normal", "differs", "JAX's"),
        ("tf.function", "ok", ""),
        ("tf.keras.layers.StringLookup", "differs", "on the host"),
        ("tf.keras.layers.TextVectorization", "differs", "on the host"),
        ("tf.keras.layers.Normalization", "ok", ""),
        ("tf.keras.backend.sum", "ok", ""),
        ("tf.float32.max", "differs", "np.finfo"),
        ("tf.keras.backend.gradients", "missing", "GradientTape"),
        ("tf.keras.backend.learning_phase", "missing", "training"),
        ("tf.keras.losses.Reduction.NONE", "ok", ""),
        ("tf.keras.layers.Dense", "ok", ""),
        ("tf.keras.losses.mean_squared_error", "ok", ""),
        ("tf.train.AdamOptimizer", "missing", "`tf.compat.v1.train`"),
        ("tf.losses.huber_loss", "missing", "`tf.compat.v1.losses`"),
        ("tf.ConfigProto", "missing", "`tf.compat.v1`"),
        ("tf.saved_model.save", "differs", "a format of its own"),
        ("tf.image.sobel_edges", "missing", "jax.image"),
        ("tf.distribute.ParameterServerStrategy", "missing", "MultiWorkerMirrored"),
        ("tf.data.Dataset.no_such_method", "missing", "from_generator"),
        ("tf.keras.no_such_name", "missing", "names of Keras 3"),
        ("tf.constant.anything", "ok", ""),
        ("tf.compat.v1.disable_eager_execution", "missing", "plain calls"),
        ("tf.compat.v1.disable_v2_behavior", "missing", "plain calls"),
    ],
)
def test_names_are_judged(name, kind, advice):
    found, text = judge(name)
    assert found == kind
    assert advice in text


def test_findings_go_line_by_line():
    source = "import tensorflow as tf\nx = tf.exp(tf.raw_ops.Add(1))\nv.shape.rank\n"
    findings = examine(source)
    assert [(f.line, f.kind) for f in findings] == [
        (1, "import"),
        (2, "missing"),
        (2, "ok"),
        (3, "differs"),
    ]


def test_files_are_reported(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text("import tensorflow as tf\ntf.exp(1)\ntf.raw_ops.Add\n")
    assert main([str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{path}:1: import  import tensorflow as tf: write `import mirrax.tf as tf`",
        f"{path}:2: ok      tf.exp",
        f"{path}:3: missing tf.raw_ops.Add: Use `jax.lax`.",
        "2 uses: 1 work, 0 differ, 1 missing; 0 changes for Keras 3.",
    ]


def test_only_problems_are_reported_on_demand(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text("import tensorflow as tf\ntf.exp(tf.random.normal([1]))\n")
    assert main([str(path), "--problems"]) == 0
    assert capsys.readouterr().out.count("\n") == 2


@pytest.mark.parametrize(
    "content", [None, "def (", b"\xff\xfe"], ids=["no", "bad", "bytes"]
)
def test_files_that_are_no_programs_are_named(tmp_path, capsys, content):
    path = tmp_path / "train.py"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main([str(path)]) == 2
    assert f"{path} cannot be read as a Python program" in capsys.readouterr().err


def test_it_is_a_program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("from tensorflow import exp\nexp(1)\n")
    done = subprocess.run(
        [sys.executable, "-m", "mirrax.tf.migration.migrate", str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "1 uses: 1 work" in done.stdout


def test_what_is_asked_of_tensors_is_reported():
    source = "n = x.shape.as_list()[0]\nv[0].assign(n)\nv.value()\n"
    found = [(f.line, f.subject, f.advice) for f in examine(source)]
    assert [line for line, _, _ in found] == [1]
    assert found[0][1] == ".shape.as_list"
    assert "get_shape()" in found[0][2]


OLD = """
import tensorflow as tf
from tensorflow.keras.callbacks import (
    ModelCheckpoint,
)

model.fit_generator(data)
optimizer = tf.keras.optimizers.SGD(lr=0.1)
layer.add_weight("w")
callback.lr = 1
"""

NEW = """
import mirrax.tf as tf
from mirrax.tf.keras.callbacks import ModelCheckpoint

model.fit(data)
optimizer = tf.keras.optimizers.SGD(learning_rate=0.1)
layer.add_weight(name="w")
callback.lr = 1
"""


def test_changes_of_keras_3_are_reported(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text(OLD)
    assert main([str(path), "--problems"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1:3] for line in lines[:-1]] == [
        ["change", ".fit_generator:"],
        ["change", "lr=:"],
        ["change", "add_weight('w'):"],
    ]
    assert lines[-1].endswith("3 changes for Keras 3.")


def test_mechanical_changes_are_written(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text(OLD)
    assert main([str(path), "--write"]) == 0
    assert path.read_text() == NEW
    assert (tmp_path / "train.py.orig").read_text() == OLD
    assert "5 edits; the original is" in capsys.readouterr().out


def test_changes_that_need_thought_remain(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("model.predict_classes(x)\nx.optimizers.SGD(decay=0.1)\n")
    assert main([str(path), "--write"]) == 1
    assert not (tmp_path / "train.py.orig").exists()


def test_write_keeps_every_byte_of_the_original(tmp_path, capsys):
    program = tmp_path / "train.py"
    source = b"import tensorflow as tf\r\nprint('\xc3\xa9')\r\n"
    program.write_bytes(source)
    (tmp_path / "train.py.orig").write_text("mine")
    main([str(program), "--write"])
    assert (tmp_path / "train.py.orig").read_text() == "mine"
    assert (tmp_path / "train.py.orig1").read_bytes() == source
    assert b"\r\nprint('\xc3\xa9')\r\n" in program.read_bytes()
    assert "train.py.orig1" in capsys.readouterr().out


def test_names_of_keras_2_that_are_gone_are_found():
    source = """
import tensorflow as tf
from tensorflow.keras.wrappers.scikit_learn import KerasClassifier
from tensorflow.keras import layers
class Mine(layers.Layer):
    def build(self, input_shape):
        self.w = self.add_weight("w", shape=(1,))
    def call(self, x):
        self.add_metric(x, name="a")
        return layers.CuDNNLSTM(3)(x)
"""
    found = {
        (finding.line, finding.kind, finding.advice)
        for finding in examine(source)
        if finding.kind in ("missing", "change")
    }
    assert found == {
        (3, "missing", "Use the package `scikeras`."),
        (7, "change", "write `name=` before the name"),
        (
            9,
            "change",
            "write a `tf.keras.metrics` object in the layer, updated in `call`",
        ),
        (10, "missing", "Use `tf.keras.layers.LSTM`."),
    }


@pytest.mark.parametrize(
    ("line", "subject", "advice"),
    [
        ("x.dtype.is_floating", ".dtype.is_floating", "np.issubdtype"),
        ("y = x * [1.0, 2.0]", "x * [1.0, 2.0]", "tf.constant"),
        ("y = x + [1.0, 2.0]", "x + [1.0, 2.0]", "tf.constant"),
        ("y = [[1.0]] + x", "[[1.0]] + x", "tf.constant"),
        ("y = x - [1, 2]", "x - [1, 2]", "tf.constant"),
        ("y = tf.ones([2]) + [1, 2]", "tf.ones([2]) + [1, 2]", "tf.constant"),
        (
            "tf.TensorArray(tf.float32, size=0, dynamic_size=True)",
            "dynamic_size=True",
            "its size",
        ),
        ("loss = optimizer.get_scaled_loss(loss)", ".get_scaled_loss", "scale_loss"),
    ],
)
def test_uses_that_fail_or_differ_are_found(line, subject, advice):
    found = {f.subject: f for f in examine(f"import tensorflow as tf\n{line}\n")}
    assert found[subject].kind in ("differs", "change")
    assert advice in found[subject].advice


@pytest.mark.parametrize(
    "line", ["names + ['a']", "shape + [1]", "[0] * n", "np.ones(2) + [1.0, 2.0]"]
)
def test_operations_of_lists_are_not_reported(line):
    assert examine(f"import numpy as np\n{line}\n") == []


@pytest.mark.parametrize(
    "statement",
    ["import tensorflow_addons as tfa", "from tensorflow_addons.losses import Focal"],
)
def test_packages_that_need_tensorflow_are_missing(statement):
    [found] = examine(statement)
    assert (found.kind, found.subject) == ("missing", "tensorflow_addons")
    assert "Keras 3" in found.advice


@pytest.mark.parametrize(
    "source",
    [
        "tf.keras.Input((1,), dtype=tf.string)",
        "layers.InputLayer(shape=(1,), dtype='string')",
        "tf.keras.Sequential([model, layers.TextVectorization()])",
        "words = layers.StringLookup()\ntf.keras.Sequential([model, words])",
    ],
)
def test_strings_in_models_are_found(source):
    program = f"import tensorflow as tf\nlayers = tf.keras.layers\n{source}"
    found = [f for f in examine(program) if f.kind == "change"]
    assert [f.line for f in found] == [3 + source.count("\n")]
    assert "Dataset.map" in found[0].advice


def test_models_may_begin_with_strings():
    program = """import tensorflow as tf
words = tf.keras.layers.TextVectorization()
tf.keras.Sequential([tf.keras.Input((1,), dtype=tf.string), words, model])
"""
    assert not [f for f in examine(program) if f.kind == "change"]
