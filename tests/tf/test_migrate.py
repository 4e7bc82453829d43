import subprocess
import sys

import pytest

from mirrax.tf.migrate import examine, judge, main
from mirrax.tf.source_names import ProgramNames


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
        ("from tensorflow.keras import layers as l", "from keras import layers as l"),
        ("import tensorflow.keras as keras", "import keras as keras"),
        ("import tensorflow.nn as nn", "import mirrax.tf.nn as nn"),
    ],
)
def test_imports_are_rewritten(statement, replacement):
    (found,) = ProgramNames(statement).imports
    assert found.replacement == replacement


@pytest.mark.parametrize(
    ("name", "kind", "advice"),
    [
        ("tf.reduce_sum", "ok", ""),
        ("tf.data.Dataset.from_tensor_slices", "ok", ""),
        ("tf.distribute.MirroredStrategy", "ok", ""),
        ("tf.random.normal", "differs", "JAX's"),
        ("tf.function", "differs", "tf.cond"),
        ("tf.keras.layers.Dense", "ok", ""),
        ("tf.saved_model.save", "missing", "jax.export"),
        ("tf.image.ssim", "missing", "jax.image"),
        ("tf.distribute.ParameterServerStrategy", "missing", "MultiWorkerMirrored"),
        ("tf.data.Dataset.no_such_method", "missing", "from_generator"),
        ("tf.keras.no_such_name", "missing", "docs/migration.md"),
        ("tf.constant.anything", "ok", ""),
    ],
)
def test_names_are_judged(name, kind, advice):
    found, text = judge(name)
    assert found == kind
    assert advice in text


def test_findings_go_line_by_line():
    source = "import tensorflow as tf\nx = tf.exp(tf.signal.fft(1))\nv.shape.rank\n"
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
        "2 uses: 1 work, 0 differ, 1 missing.",
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
        [sys.executable, "-m", "mirrax.tf.migrate", str(path)],
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
