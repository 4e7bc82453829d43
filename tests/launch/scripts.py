"""Programs for launchers to start; quick, because they leave JAX alone."""

import os
import signal
import subprocess
import sys
import time


def fail():
    print("about to fail")
    if worker() == "1":
        raise KeyError("the cause")
    time.sleep(600)


def hang():
    """Has a child of its own, and ends by no polite signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("ready", flush=True)
    time.sleep(600)


def tidy():
    """Ends with 7 when it is told to."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    print("ready", flush=True)
    time.sleep(600)


def show():
    print(sys.argv[2:], os.environ["OMP_NUM_THREADS"])


def worker():
    return os.environ["TF_CONFIG"].rpartition('"index": ')[2][0]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
