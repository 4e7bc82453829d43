"""Runs the tests on a copy of the project in which `mirrax.tf` does not exist.

    python tools/without_tf.py [arguments of pytest]

The names of TensorFlow are a layer on top of everything, so the rest must not miss
them. Exits with the code of pytest.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYER = ("src/mirrax/tf", "tests/tf", "tests/conformance", "examples/tf")
"""What is deleted with the layer."""

KEPT = ("tests/conformance/expected_mw",)
"""Recorded answers in there that other tests compare with, too."""

NOT_COPIED = (".*", "__pycache__", "build", "dist")


def copy_without_layer(target: pathlib.Path) -> None:
    """Makes `target` a copy of the project without the layer."""
    ignored = shutil.ignore_patterns(*NOT_COPIED)
    shutil.copytree(ROOT, target, ignore=ignored)
    for folder in LAYER:
        shutil.rmtree(target / folder)
    for folder in KEPT:
        shutil.copytree(ROOT / folder, target / folder)


def main(arguments: list[str]) -> int:
    """Runs pytest in a copy and returns its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        project = pathlib.Path(folder) / "mirrax"
        copy_without_layer(project)
        environment = os.environ | {"PYTHONPATH": str(project / "src")}
        command = [sys.executable, "-m", "pytest", *arguments]
        done = subprocess.run(command, cwd=project, env=environment, check=False)
        return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
