"""`mirrax.tf` can be deleted: nothing else knows of it."""

import ast
import subprocess
import sys

import pytest

from tools.without_tf import LAYER, ROOT, copy_without_layer

OTHERS = [
    path
    for folder in ("src", "tests", "examples", "tools")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not path.relative_to(ROOT).as_posix().startswith(LAYER)
]


def imports_of(path):
    source = path.read_text()
    # Most files do not have the word, and parsing takes long.
    for node in ast.walk(ast.parse(source)) if "tf" in source else ():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_nothing_else_imports_the_layer():
    wrong = [
        (path.relative_to(ROOT).as_posix(), name)
        for path in OTHERS
        for name in imports_of(path)
        if name == "mirrax.tf" or name.startswith("mirrax.tf.")
    ]
    assert len(OTHERS) > 100
    assert wrong == []


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project without the layer."""
    target = tmp_path_factory.mktemp("copy") / "mirrax"
    copy_without_layer(target)
    return target


def test_the_rest_works_without_the_layer(project):
    program = (
        "import mirrax\n"
        "strategy = mirrax.MirroredStrategy(['CPU:0', 'CPU:1'])\n"
        "with strategy.scope():\n    v = mirrax.Variable(1.0)\n"
        "print(strategy.reduce('SUM', strategy.run(lambda: v * 2), axis=None))\n"
        "import mirrax.tf\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(project / "src"), "JAX_PLATFORMS": "cpu"},
        timeout=120,
    )
    assert done.stdout.strip() == "4.0"
    assert "No module named 'mirrax.tf'" in done.stderr
