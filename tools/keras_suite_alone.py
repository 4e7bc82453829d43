"""A plugin of pytest for `keras_suite.py`: Keras' tests without Mirrax, on two devices.

Most files import TensorFlow, which only some of their tests need: those are skipped.
"""

import json
import os
import pathlib
import sys
import types

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["PJRT_NPROC"] = "4"

import pytest
from keras.src.utils import module_utils

outcomes: dict[str, str] = {}


class Missing(types.ModuleType):
    """A module that is not installed; a test that uses it is skipped."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        pytest.skip("Needs TensorFlow.", allow_module_level=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Calls a test skipped that imports TensorFlow itself."""
    report = yield
    error = call.excinfo and call.excinfo.value
    if isinstance(error, ImportError) and "tensorflow" in str(error).lower():
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, "Needs TensorFlow.")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Lets files be imported that import TensorFlow."""
    if module_utils.tensorflow.available:
        return (yield)
    sys.modules["tensorflow"] = Missing("tensorflow")
    try:
        return (yield)
    finally:
        sys.modules.pop("tensorflow", None)


def pytest_configure(config):
    """Knows Keras' marks."""
    for mark in ("requires_trainable_backend", "multi_device"):
        config.addinivalue_line("markers", mark)


def pytest_runtest_logreport(report):
    """Notes how a test ended."""
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid] = report.outcome


def pytest_collectreport(report):
    """Notes files that could not be imported."""
    if report.outcome != "passed":
        outcomes[report.nodeid] = f"file {report.outcome}"


def pytest_sessionfinish():
    """Writes what was noted."""
    path = pathlib.Path(os.environ["KERAS_SUITE_REPORT"])
    path.write_text(json.dumps(outcomes))
