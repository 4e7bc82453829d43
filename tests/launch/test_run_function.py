import json
import os
import sys
import time

import pytest

import mirrax.launch
from mirrax import errors
from mirrax.testing import launch_processes


def multiply(factor):
    config = json.loads(os.environ["TF_CONFIG"])
    print(f"worker {config['task']['index']} multiplies")
    return factor * config["task"]["index"]


def fail_on_one():
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
        raise KeyError("the cause")
    print(os.environ.get("TEST_VARIABLE"))


def sleep():
    time.sleep(600)


def test_results_come_in_the_order_of_workers():
    lines = []
    results = mirrax.launch.run(multiply, 3, (10,), show=lines.append, timeout=240)
    assert results == [0, 10, 20]
    assert "[worker 2] worker 2 multiplies" in lines


def test_failure_is_raised_with_its_traceback():
    with pytest.raises(errors.WorkerFailed, match="KeyError: 'the cause'") as info:
        mirrax.launch.run(fail_on_one, 2, show=lambda line: None, timeout=240)
    assert info.value.worker == 1


def test_failure_fails_the_test_with_the_output_of_all():
    with pytest.raises(pytest.fail.Exception, match="KeyError: 'the cause'") as info:
        launch_processes(fail_on_one, environment={"TEST_VARIABLE": "set here"})
    assert "[worker 0] set here" in str(info.value)


def test_test_fails_with_all_logs_when_the_time_is_over():
    with pytest.raises(pytest.fail.Exception) as info:
        launch_processes(sleep, num_processes=2, timeout=4.0)
    assert "--- worker 1, exit code 137 ---" in str(info.value)


def test_function_of_a_notebook_needs_cloudpickle(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sleep, "__module__", "__main__")
    with pytest.raises(RuntimeError, match="Install cloudpickle"):
        mirrax.launch.run(sleep)
