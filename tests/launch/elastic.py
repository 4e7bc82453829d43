"""A training that prints which samples each step gets, whatever the number of workers.

python elastic.py DIRECTORY NUM_STEPS INTERVAL

Three workers wait in step 4 until the job fails or a worker is asked to stop. Two go on
after their first step only when the directory has a file `go`; three then wait no more.
"""

import os
import pathlib
import sys
import time

import numpy as np

import mirrax
from mirrax.cluster import current_job


def is_undisturbed():
    job = current_job()
    return job.failure is None and not job.stop_agreement.is_coming


def wait_while(is_true):
    deadline = time.monotonic() + 240
    while is_true() and time.monotonic() < deadline:
        time.sleep(0.01)


def main(directory, num_steps, interval):
    strategy = mirrax.MultiWorkerMirroredStrategy()
    job = strategy.topology
    print(f"pid {os.getpid()}", flush=True)
    dataset = mirrax.data.Dataset.range(36).shuffle(36, seed=1).batch(12).repeat()
    run = mirrax.train.Checkpoint(
        data=iter(strategy.experimental_distribute_dataset(dataset))
    )
    gate = pathlib.Path(directory) / "go"
    manager = mirrax.train.CheckpointManager(run, directory, save_interval=interval)
    for step in mirrax.train.resumable(manager, num_steps):
        samples = np.asarray(strategy.gather(next(run.data), axis=0)).tolist()
        if job.worker_index == 0:
            print(f"step {step} on {job.num_workers}: {samples}", flush=True)
            if job.num_workers == 2 or step == 4:
                wait_while(lambda: not gate.exists() and is_undisturbed())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
