"""A job leaves nothing in the folder for temporary files, whatever ends it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from mirrax.launch.orphan_guard import OrphanGuard

PROGRAM = """
import mirrax.launch
from tests.launch.test_run_function import sleep

mirrax.launch.run(sleep)
"""


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.slow
def test_killed_caller_of_run_leaves_no_folder(tmp_path, number):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as caller:
        try:
            # Its guard knows the folder before the first worker starts.
            assert b"asleep" in caller.stdout.readline()
            assert list(tmp_path.glob("mirrax-run-*"))
        finally:
            caller.send_signal(number)
            caller.wait(timeout=120)
    wait_for(lambda: not list(tmp_path.iterdir()))


def test_guard_removes_the_folder_of_a_dead_launcher(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "order").touch()
    guard = OrphanGuard()
    guard.remove(tmp_path / "scratch")
    # What the guard sees when the launcher dies.
    guard._process.stdin.close()
    guard._process.wait(timeout=120)
    assert list(tmp_path.iterdir()) == []
