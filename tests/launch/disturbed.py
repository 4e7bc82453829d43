"""A job whose first attempt loses its coordinator, and whose second one hangs.

python disturbed.py DIRECTORY
"""

import contextlib
import os
import pathlib
import signal
import sys
import time

import mirrax


def main(directory):
    strategy = mirrax.MultiWorkerMirroredStrategy()
    number = len(list(directory.iterdir()))
    strategy.run(mirrax.function(add_up))
    if strategy.is_chief:
        (directory / str(number)).touch()
        if number == 0:
            os.kill(find_coordinator(), signal.SIGKILL)
    elif number == 1:
        time.sleep(600)
    strategy.run(mirrax.function(add_up))


def add_up():
    return mirrax.get_replica_context().all_reduce("SUM", 1.0)


def find_coordinator():
    """Returns the process of our launcher that runs the coordinator."""
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        # Processes of others end at any moment.
        with contextlib.suppress(OSError):
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
            command = (path / "cmdline").read_bytes()
            if int(parent) == os.getppid() and b"coordinator.process" in command:
                return int(path.name)
    raise AssertionError("There is no coordinator.")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
