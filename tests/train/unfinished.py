"""Saves in the background and ends in some way without waiting for it.

python unfinished.py <directory> <return, raise, exit, fail, thread or only thread>

A thread saves after the main thread has ended.
"""

import atexit
import sys
import threading
import time

import numpy as np

import mirrax
from mirrax.train.checkpoints import array_file


def write_slowly(file, arrays, write=array_file.write):
    # Long enough for the main thread to reach the interpreter's shutdown.
    time.sleep(0.5)
    if ending == "fail" and file.parent.name == "ckpt-1":
        raise OSError("No space left on device")
    return write(file, arrays)


directory, ending = sys.argv[1:]
array_file.write = write_slowly
atexit.register(print, "handlers have run")
run = mirrax.train.Checkpoint(weight=np.ones(1 << 18))
manager = mirrax.train.CheckpointManager(
    run, directory, max_to_keep=1, asynchronous=True
)


def save_late():
    threading.main_thread().join()
    manager.save(2)


if ending != "only thread":
    manager.save(0)
    manager.save(1)
if "thread" in ending:
    threading.Thread(target=save_late).start()
if ending == "raise":
    raise KeyError("the cause")
if ending == "exit":
    sys.exit(3)
