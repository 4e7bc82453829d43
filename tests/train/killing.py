"""Kills a process that saves checkpoints, at a random moment."""

import os
import pathlib
import subprocess
import sys
import time

from tests.train import saver

ROOT = pathlib.Path(__file__).parents[2]


def kill_while_saving(directory, seconds, asynchronous):
    """Lets a process save for some time, kills it, and checks what it left.

    Returns the number of the newest checkpoint.
    """
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    process = subprocess.Popen(
        [sys.executable, saver.__file__, str(directory), str(int(asynchronous))],
        env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        first = process.stdout.readline()
        time.sleep(seconds)
    finally:
        process.kill()
        said = (first + process.stdout.read()).split("\n")[:-1]
        process.stdout.close()
        process.wait()
    return saver.check_newest(directory, int(said[-1]))
