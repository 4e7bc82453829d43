import json
import os
import subprocess
import sys
import threading
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
    print("asleep", flush=True)
    time.sleep(600)


def test_results_come_in_the_order_of_workers():
    lines = []
    results = mirrax.launch.run(multiply, 2, (10,), show=lines.append, timeout=240)
    assert results == [0, 10]
    assert "[worker 1] worker 1 multiplies" in lines


def test_failure_is_raised_with_its_traceback():
    lines = []
    environment = {"TEST_VARIABLE": "set here", "MIRRAX_FAILURE_GRACE": "240"}
    with pytest.raises(errors.WorkerFailed, match="KeyError: 'the cause'") as info:
        mirrax.launch.run(
            fail_on_one, 2, show=lines.append, environment=environment, timeout=240
        )
    assert info.value.worker == 1
    assert "[worker 0] set here" in lines


def test_test_fails_with_all_logs_when_the_time_is_over():
    with pytest.raises(pytest.fail.Exception) as info:
        launch_processes(sleep, num_processes=2, timeout=4.0)
    assert "--- worker 1, exit code 137 ---" in str(info.value)


BY_VALUE = """
import dataclasses
import os
import mirrax

@dataclasses.dataclass
class Result:
    rank: int

@mirrax.function
def double(x):
    return 2 * x

double(1.0)

def work(base):
    return Result(base + int(os.environ["RANK"]) + int(double(0)))

results = mirrax.launch.run(work, 2, (5,), timeout=240)
print(results == [Result(5), Result(6)])
"""
GUARDED = """
import functools
import os
import mirrax

# It cannot be pickled by value.
@functools.lru_cache
def work(base):
    return base + int(os.environ["RANK"])

if __name__ == "__main__":
    print(mirrax.launch.run(work, 2, (5,), timeout=240) == [5, 6])
"""
INTERACTIVE = """
import code, sys
shell = code.InteractiveInterpreter(sys.modules["__main__"].__dict__)
del sys.modules["__main__"].__file__
shell.runcode(compile(open(sys.argv[1]).read(), "<cell 1>", "exec"))
"""


def run_program(*arguments, stdin=None):
    process = subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return process.stdout, process.stderr


@pytest.mark.parametrize(
    "way",
    [
        "script",
        pytest.param("standard_input", marks=pytest.mark.slow),
        pytest.param("command", marks=pytest.mark.slow),
        pytest.param("notebook", marks=pytest.mark.slow),
    ],
)
def test_functions_of_the_main_program_need_no_guard(tmp_path, way):
    script = tmp_path / "script.py"
    script.write_text(BY_VALUE)
    if way == "script":
        found = run_program(str(script))
    elif way == "standard_input":
        found = run_program("-", stdin=BY_VALUE)
    elif way == "command":
        found = run_program("-c", BY_VALUE)
    else:
        (tmp_path / "shell.py").write_text(INTERACTIVE)
        found = run_program(str(tmp_path / "shell.py"), str(script))
    assert found == ("True\n", "")


@pytest.mark.slow
def test_guarded_script_is_imported_by_the_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(GUARDED)
    assert run_program(str(script)) == ("True\n", "")


def test_objects_that_cannot_be_pickled_are_refused_at_once():
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"must be picklable.*inside of the function"):
        mirrax.launch.run(lambda: lock)


def test_function_that_does_not_load_is_explained():
    with pytest.raises(
        errors.WorkerFailed, match=r"must load in the workers. Rec.*odule"
    ):
        mirrax.launch.run(multiply, args=(LoadsNowhere(),), timeout=240)


class LoadsNowhere:
    def __reduce__(self):
        return int, ("x",)
