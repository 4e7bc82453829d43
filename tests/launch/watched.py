"""A program without checkpoints that ends on SIGTERM; the first worker ends last."""

import os
import signal
import sys
import time

import mirrax
from mirrax.cluster import current_job


def wait_while(is_true):
    deadline = time.monotonic() + 120
    while is_true() and time.monotonic() < deadline:
        time.sleep(0.01)


if __name__ == "__main__":
    strategy = mirrax.MultiWorkerMirroredStrategy()
    watcher = mirrax.train.PreemptionWatcher()
    if not strategy.is_chief:
        os.kill(os.getpid(), signal.SIGTERM)
    while not watcher.should_stop():
        strategy.run(lambda: mirrax.get_replica_context().all_reduce("SUM", 1.0))
    if strategy.is_chief:
        job = current_job()
        process = int(job.exchange("process", b"")[1])
        wait_while(lambda: os.path.exists(f"/proc/{process}"))
        # The coordinator has heard of it when it sends the second heartbeat.
        for _ in range(2):
            last = job.heartbeat._last_heard
            wait_while(lambda last=last: job.heartbeat._last_heard == last)
        print("failure:", job.failure, flush=True)
    else:
        current_job().exchange("process", str(os.getpid()).encode())
    sys.exit(75)
