"""The layers are what the project says they are."""

import pathlib
import re

import pytest

from tools.check_layers import PACKAGE, check_package, main

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write_package(folder, **sources):
    """Writes `stage__module="source"` as folder/stage/module.py."""
    for name, source in sources.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return folder


def test_every_module_keeps_to_its_layer():
    assert list(map(str, check_package(PACKAGE))) == []


DOCUMENTS = sorted(
    [
        *(ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CONTRIBUTING", "README")),
        *(ROOT / "docs").glob("*.md"),
    ]
)
# Programs of the reader, in examples.
USER_FILES = {"conftest.py", "test_train.py", "train.py"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_files_named_in_documents_exist(document):
    named = set(re.findall(r"[\w./-]+\.py\b", document.read_text())) - USER_FILES
    roots = (document.parent, ROOT, PACKAGE)
    if not (PACKAGE / "tf").is_dir():
        # `tools/without_tf.py` deletes them.
        named = {name for name in named if "tf" not in pathlib.Path(name).parts}
    missing = [n for n in named if not any((root / n).is_file() for root in roots)]
    assert sorted(missing) == []


@pytest.mark.parametrize(
    "source",
    [
        "import mirrax",
        "import mirrax.values",
        "import mirrax.values.per_replica as per_replica",
        "from mirrax.values import PerReplica",
        "from mirrax.values.per_replica import PerReplica",
        "from mirrax import values",
        "from mirrax import Strategy",
        "from mirrax import config",
        "from mirrax.random import key",
        "from mirrax.tf import Variable",
        "if TYPE_CHECKING:\n    from mirrax.strategy import Strategy",
    ],
)
def test_upward_import_is_found(tmp_path, source):
    package = write_package(tmp_path, devices__topology=source)
    assert [violation.rule for violation in check_package(package)] == ["upward-import"]


@pytest.mark.parametrize(
    "source",
    [
        "import jax",
        "import mirrax.errors",
        "from mirrax import errors",
        "from mirrax._jax.distributed import backend_is_up",
        "from mirrax.devices.device_names import DeviceName",
        "jax.__version__",
        "def load():\n    import grain",
    ],
)
def test_downward_import_is_allowed(tmp_path, source):
    package = write_package(tmp_path, devices__topology=source)
    assert check_package(package) == []


@pytest.mark.parametrize(
    "source",
    [
        "from mirrax.strategy import Strategy",
        "from mirrax import config",
        "from mirrax.integrations.keras import Scope",
    ],
)
def test_top_module_may_import_every_stage(tmp_path, source):
    assert check_package(write_package(tmp_path, testing=source)) == []


def test_top_module_may_not_import_tf(tmp_path):
    package = write_package(tmp_path, testing="import mirrax.tf")
    assert [violation.rule for violation in check_package(package)] == ["upward-import"]


@pytest.mark.parametrize(
    "source",
    [
        "from mirrax.values import PerReplica",
        "from mirrax.data.plan.node import Plan",
        "from mirrax import context",
        "from mirrax import _registry",
        "import mirrax\nmirrax.context.stack",
    ],
)
def test_tf_may_not_use_what_is_not_public(tmp_path, source):
    package = write_package(tmp_path, tf__distribute=source)
    assert [violation.rule for violation in check_package(package)] == [
        "private-mirrax"
    ]


@pytest.mark.parametrize(
    "source",
    [
        "import mirrax\nmirrax.data.Dataset.range",
        "from mirrax import Strategy, data",
        "from mirrax.data import Dataset",
        "from mirrax.tf.compat.v1 import V1Methods",
    ],
)
def test_tf_may_use_public_names_and_itself(tmp_path, source):
    assert check_package(write_package(tmp_path, tf__distribute=source)) == []


@pytest.mark.parametrize(
    "source",
    [
        "import jax._src.core",
        "from jax import _src",
        "from jaxlib import _jax",
        "import jax\njax._src.core.Tracer",
        "from keras.src import backend",
        "def patch():\n    from flax.nnx import _registry",
    ],
)
def test_private_name_of_a_library_is_found(tmp_path, source):
    package = write_package(tmp_path, run__compiled=source)
    assert [violation.rule for violation in check_package(package)] == ["private-name"]


def test_private_names_are_allowed_in_the_module_for_them(tmp_path):
    package = write_package(
        tmp_path,
        _jax__private="from jax._src import core",
        _jax__jaxlib="from jaxlib import _jax",
        integrations__keras__internals="from keras.src import backend",
        integrations__flax__internals="from flax.nnx import _registry",
    )
    assert check_package(package) == []


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    import os",
        "def f():\n    import numpy",
        "async def f():\n    from mirrax.errors import WorkerLost",
        "class A:\n    def f(self):\n        import jax",
    ],
)
def test_import_in_function_is_found(tmp_path, source):
    package = write_package(tmp_path, run__eager=source)
    assert [violation.rule for violation in check_package(package)] == [
        "import-in-function"
    ]


@pytest.mark.parametrize("source", ["from . import spec", "from .spec import parse"])
def test_relative_import_is_found(tmp_path, source):
    package = write_package(tmp_path, cluster__resolver=source)
    assert [violation.rule for violation in check_package(package)] == [
        "relative-import"
    ]


def test_unknown_layer_is_found(tmp_path):
    package = write_package(tmp_path, utils="")
    assert [violation.rule for violation in check_package(package)] == ["unknown-layer"]


def test_command_prints_place_finding_and_fix(tmp_path, capsys):
    write_package(tmp_path, errors="\nfrom mirrax.options import ReduceOp\n")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == (
        f"{tmp_path}/errors.py:2: upward-import: "
        "`errors` uses `mirrax.options.ReduceOp`, which belongs to `options` above it. "
        "Move the name down, or declare a Protocol in `errors`.\n"
        "1 modules, 1 violations.\n"
    )


def test_command_passes_a_package_without_violations(tmp_path, capsys):
    write_package(tmp_path, errors="import abc\n")
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 modules, 0 violations.\n"


def test_command_refuses_an_empty_folder(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    assert "There is no Python file to check." in capsys.readouterr().out
