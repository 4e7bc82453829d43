"""A training that may be stopped at any moment: it prints its steps and its result.

python resumed.py DIRECTORY NUM_STEPS INTERVAL [MOMENT [STATE]]

MOMENT is where worker 0 says "ready" and waits until a worker is asked to stop:
compile, step, evaluation, data or save; "pause" makes every step a bit longer, and
"after 7,18" waits after these steps, once each, until another worker fails.
STATE is mirrored or sharded.
"""

import hashlib
import os
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import mirrax
from mirrax.cluster import current_job

MAX_SECONDS = 240


def wait_for_trouble():
    job = current_job()
    deadline = time.monotonic() + MAX_SECONDS
    while not (job.stop_agreement.is_coming or job.failure):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def main(directory, num_steps, interval, moment="", state="mirrored"):
    shard_state = 1 if state == "sharded" else False
    strategy = mirrax.MultiWorkerMirroredStrategy(shard_state=shard_state)
    is_chief = strategy.topology.worker_index == 0
    print(f"pid {os.getpid()}", flush=True)

    def linger(where):
        if where == moment and is_chief:
            print("ready", flush=True)
            wait_for_trouble()

    def linger_after(step):
        mark = pathlib.Path(directory, f"lingered-{step}")
        is_meant = moment.startswith("after ") and str(step) in moment[6:].split(",")
        if is_meant and is_chief and not mark.exists():
            mark.touch()
            wait_for_trouble()

    with strategy.scope():
        weights = mirrax.Variable(jnp.zeros((4, 4)))
        momentum = mirrax.Variable(jnp.zeros((4, 4)))
    assert momentum.stored.sharding.is_fully_replicated == (state == "mirrored")
    rows = np.random.default_rng(0).normal(size=(96, 4)).astype(np.float32)
    dataset = mirrax.data.Dataset.from_tensor_slices(rows).shuffle(96, seed=1)
    dataset = dataset.batch(12).repeat()
    run = mirrax.train.Checkpoint(
        weights=weights,
        momentum=momentum,
        data=iter(strategy.experimental_distribute_dataset(dataset)),
        key=jax.random.key(3),
    )

    @mirrax.function
    def train(batch, noise):
        linger("compile")
        predicted = batch @ weights + noise
        gradient = batch.T @ (jnp.sin(predicted) - batch)
        replica = mirrax.get_replica_context()
        gradient = replica.all_reduce("MEAN", gradient)
        momentum.assign(0.9 * momentum + gradient)
        weights.assign(weights - 0.01 * momentum)

    @mirrax.function
    def evaluate():
        return mirrax.get_replica_context().all_reduce("SUM", jnp.sum(weights**2))

    manager = mirrax.train.CheckpointManager(
        run, directory, max_to_keep=2, save_interval=interval
    )
    write = run._writer.start
    run.__dict__["_writer"].start = lambda *args: (linger("save"), write(*args))
    for step in mirrax.train.resumable(manager, num_steps):
        linger("data")
        batch = next(run.data)
        run.key, key = jax.random.split(run.key)
        linger("step")
        strategy.run(train, (batch, jax.random.normal(key, ())))
        linger("evaluation")
        if moment == "pause":
            time.sleep(0.03)
        if step % 4 == 3:
            strategy.run(evaluate)
        if is_chief:
            print(f"step {step + 1} {time.time():.3f}", flush=True)
        linger_after(step + 1)
    values = [weights.numpy(), momentum.numpy(), jax.random.key_data(run.key)]
    digest = hashlib.sha256(b"".join(np.asarray(v).tobytes() for v in values))
    print(f"digest {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
