"""Kills a process that saves checkpoints, at a random moment."""

import os
import pathlib
import subprocess
import sys
import time

from tests.train import saver

ROOT = pathlib.Path(__file__).parents[2]


def start_program(*arguments):
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        text=True,
    )


def run_program(*arguments):
    """Returns what a program prints."""
    with start_program(*arguments) as process:
        output, _ = process.communicate()
    assert process.returncode == 0
    return output


def kill_while_saving(directory, seconds, asynchronous):
    """Lets a process save for some time, kills it, and checks what it left.

    Returns the number of the newest checkpoint.
    """
    process = start_program(saver.__file__, str(directory), str(int(asynchronous)))
    try:
        first = process.stdout.readline()
        time.sleep(seconds)
    finally:
        process.kill()
        said = (first + process.stdout.read()).split("\n")[:-1]
        process.stdout.close()
        process.wait()
    return saver.check_newest(directory, int(said[-1]))
