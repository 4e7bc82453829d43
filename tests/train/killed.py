"""Saves over checkpoints in processes that are killed, each one change further.

    python killed.py <directory>

A change is what Python does to files: it makes, opens, renames or removes one. Process
number n works in `<directory>/<n>`, where `ckpt-1` is, and is killed before its n-th
change. The last one ends by itself, and its number is printed.
"""

import itertools
import os
import pathlib
import shutil
import signal
import sys

import numpy as np

import mirrax

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "open"}


def kill_before(change, directory):
    """Kills this process before so many changes in a directory."""
    counter = itertools.count(1)

    def hook(event, args):
        if event not in CHANGES or (event == "open" and not args[2] & os.O_WRONLY):
            return
        place = pathlib.Path(os.fsdecode(args[0]))
        if directory in place.parents and next(counter) == change:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def fork(program, *args):
    """Runs a function in another process; returns whether it came to its end."""
    process = os.fork()
    if process == 0:
        program(*args)
        os._exit(0)
    return os.waitpid(process, 0)[1] == 0


def manage(directory):
    run = mirrax.train.Checkpoint(weight=np.full(3, 1.0), round=1)
    return run, mirrax.train.CheckpointManager(run, directory, max_to_keep=1)


def save_first(directory):
    _, manager = manage(directory)
    manager.save(1)


def save_again(directory, change):
    """Replaces `ckpt-1`, and saves `ckpt-2`, for which `ckpt-1` goes."""
    run, manager = manage(directory)
    kill_before(change, directory)
    for number, run.round in ((1, 2), (2, 3)):
        run.weight = np.full(3, float(run.round))
        manager.save(number)


def main(directory):
    fork(save_first, directory / "first")
    for change in itertools.count(1):
        place = directory / str(change)
        shutil.copytree(directory / "first", place)
        if fork(save_again, place, change):
            print(change)
            return


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
