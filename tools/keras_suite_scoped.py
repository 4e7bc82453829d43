"""A plugin of pytest for `keras_suite.py`: each test in the scope of two replicas."""

import pytest

import mirrax

pytest_plugins = ["keras_suite_alone"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Runs a test in the scope."""
    with mirrax.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        return (yield)
