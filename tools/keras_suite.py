"""Runs Keras' own tests of training as they are, and again under a strategy.

    python tools/keras_suite.py [arguments of pytest]

The installed Keras brings its tests along. They run once without Mirrax, and once with
every test inside the scope of a `MirroredStrategy` of two replicas. Prints both results
and each test that ends otherwise; exits with 1 if there is one that is not expected.
"""

import collections
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

FILES = (
    "trainers/trainer_test.py",
    "trainers/compile_utils_test.py",
    "trainers/epoch_iterator_test.py",
    "trainers/data_adapters/array_data_adapter_test.py",
    "trainers/data_adapters/data_adapter_utils_test.py",
    "trainers/data_adapters/generator_data_adapter_test.py",
    "trainers/data_adapters/grain_dataset_adapter_test.py",
    "trainers/data_adapters/py_dataset_adapter_test.py",
    "trainers/data_adapters/torch_data_loader_adapter_test.py",
    "backend/jax/trainer_test.py",
    "callbacks/backup_and_restore_test.py",
    "callbacks/callback_test.py",
    "callbacks/csv_logger_test.py",
    "callbacks/early_stopping_test.py",
    "callbacks/lambda_callback_test.py",
    "callbacks/learning_rate_scheduler_test.py",
    "callbacks/model_checkpoint_test.py",
    "callbacks/monitor_callback_test.py",
    "callbacks/orbax_checkpoint_test.py",
    "callbacks/reduce_lr_on_plateau_test.py",
    "callbacks/terminate_on_nan_test.py",
    "models/cloning_test.py",
    "models/functional_test.py",
    "models/model_test.py",
    "models/sequential_test.py",
)
"""What is run, below `keras/src`; not what needs TensorFlow from its first line on."""

_WHERE = "It asks where an array lies, or uses a distribution of Keras' own."

EXPECTED = {
    "test_jit_fit_with_out_shardings_logic_distributed": _WHERE,
    "test_warns_when_model_built_outside_scope_DataParallel": _WHERE,
    "test_warns_when_model_built_outside_scope_ModelParallel": _WHERE,
}
"""Tests that cannot end alike under a scope, and why."""


def run_suite(plugin: str, arguments: list[str]) -> dict[str, str]:
    """Returns how each test ends, with a plugin of this folder."""
    source = pathlib.Path(importlib.util.find_spec("keras").origin).parent / "src"
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        environment = os.environ | {
            "KERAS_BACKEND": "jax",
            "JAX_PLATFORMS": "cpu",
            "KERAS_SUITE_REPORT": str(report),
            "PYTHONPATH": os.pathsep.join(
                [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
        }
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-p", plugin),
            *("-p", "no:cacheprovider", "--rootdir", str(source), "-c", os.devnull),
            *("-o", "python_files=*_test.py", "--continue-on-collection-errors"),
            *arguments,
            *(str(source / file) for file in FILES),
        ]
        subprocess.run(command, cwd=folder, env=environment, check=False)
        return json.loads(report.read_text())


def main(arguments: list[str]) -> int:
    """Compares the two runs; returns the number of tests that differ, at most 1."""
    alone = run_suite("keras_suite_alone", arguments)
    scoped = run_suite("keras_suite_scoped", arguments)
    print("without Mirrax:", _summary(alone))
    print("in a scope:    ", _summary(scoped))
    differing = [name for name in alone if scoped.get(name) != alone[name]]
    for name in differing:
        reason = next((why for test, why in EXPECTED.items() if test in name), "")
        print(f"  {name}: {alone[name]}, then {scoped.get(name)}. {reason}".rstrip())
    unexpected = [n for n in differing if not any(test in n for test in EXPECTED)]
    return int(bool(unexpected) or not alone)


def _summary(outcomes: dict[str, str]) -> str:
    counts = collections.Counter(outcomes.values())
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
