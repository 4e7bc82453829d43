import os
import pathlib
import sys
import time

import pytest

from mirrax.cluster.worker.tracebacks import find_error_line
from mirrax.launch.worker_output import WorkerOutput
from mirrax.launch.worker_process import WorkerProcess

CHAINED = """
print("before")
try:
    1 / 0
except ZeroDivisionError as error:
    raise KeyError("second") from error
"""


def run(program, log=None):
    shown = []
    command = [sys.executable, "-c", program]
    child = WorkerProcess(
        command, dict(os.environ), WorkerOutput("worker 0", shown.append, log)
    )
    deadline = time.monotonic() + 240
    while child.exit_code is None and time.monotonic() < deadline:
        time.sleep(0.01)
    child.finish()
    assert all(line.startswith("[worker 0] ") for line in shown)
    return child, [line.removeprefix("[worker 0] ") for line in shown]


def test_traceback_is_found_with_what_led_to_it():
    child, shown = run(CHAINED)
    assert child.describe_exit() == "exit code 1"
    assert shown[0] == "before"
    error, trace = child.output.find_error()
    lines = trace.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "ZeroDivisionError: division by zero" in lines
    assert lines[-1] == error == "KeyError: 'second'"


def test_only_the_last_traceback_counts():
    program = "import traceback\ntry: 1/0\nexcept Exception: traceback.print_exc()\n"
    child, _ = run(program + "raise KeyError('last')")
    error, trace = child.output.find_error()
    assert "ZeroDivisionError" not in trace
    assert trace.endswith(error)
    assert error == "KeyError: 'last'"


@pytest.mark.parametrize(
    "leaf", ["KeyError('last')", "ExceptionGroup('inner', [KeyError('last')])"]
)
def test_first_exception_of_a_group_is_the_error(leaf):
    child, _ = run(f"raise ExceptionGroup('all', [{leaf}, ValueError('other')])")
    error, trace = child.output.find_error()
    assert error == find_error_line(trace) == "KeyError: 'last'"
    assert "ExceptionGroup: all (2 sub-exceptions)" in trace


def test_error_of_the_job_counts_after_an_exception_that_was_caught():
    program = "import traceback\ntry: 1/0\nexcept Exception: traceback.print_exc()\n"
    end = "print('mirrax.errors.WorkerLost: worker 1 died.\\nLook at its log.')"
    child, _ = run(program + end)
    error = "mirrax.errors.WorkerLost: worker 1 died."
    assert child.output.find_error() == (error, f"{error}\nLook at its log.")


def test_signal_is_named_and_counted_as_shells_do():
    child, _ = run("import os; os.kill(os.getpid(), 9)")
    assert child.exit_code == 137
    assert child.describe_exit() == "killed by SIGKILL"
    assert child.output.find_error() == ("", "")


def test_good_end_is_described_as_an_early_one():
    child, _ = run("")
    assert child.describe_exit() == "exit code 0, before the others were done"


def test_odd_bytes_are_shown_somehow():
    _, shown = run(r"import os; os.write(1, b'\xff ok\n')")
    assert shown == ["\ufffd ok"]


@pytest.mark.parametrize("log", ["/dev/full", "/dev/null/worker-0.log"])
def test_log_that_cannot_be_written_is_one_warning(log):
    child, shown = run("for i in range(3): print(i)", pathlib.Path(log))
    assert child.exit_code == 0
    warnings = [line for line in shown if line.startswith(f"mirrax launch: {log}")]
    assert len(warnings) == 1
    assert "cannot be written" in warnings[0]
    assert [line for line in shown if line not in warnings] == ["0", "1", "2"]
