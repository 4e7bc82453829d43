"""A training that prints which samples each step gets, whatever the number of workers.

python elastic.py DIRECTORY NUM_STEPS INTERVAL

Two workers go on after their first step only when the directory has a file `go`.
"""

import os
import pathlib
import sys
import time

import numpy as np

import mirrax


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
            while job.num_workers == 2 and not gate.exists():
                time.sleep(0.1)
        time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
