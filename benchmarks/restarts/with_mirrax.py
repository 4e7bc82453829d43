"""A small training on two workers that resumes from its newest checkpoint."""

# ruff: noqa: E402
import time

# Before the imports, which take most of the time.
STARTED = time.time()

import itertools
import os
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

import mirrax


def main(folder, steps, interval):
    strategy = mirrax.MultiWorkerMirroredStrategy()
    (folder / f"pid-{os.environ['RANK']}").write_text(str(os.getpid()))
    sizes = (784, 128, 10)
    values = np.random.default_rng(0)
    with strategy.scope():
        weights = [
            mirrax.Variable(values.normal(size=shape).astype(np.float32) * 0.05)
            for shape in itertools.pairwise(sizes)
        ]
    x = values.normal(size=(64, 784)).astype(np.float32)
    y = values.integers(0, 10, 64)

    @mirrax.function
    def train():
        def loss_of(weights):
            first, second = weights
            logits = jax.nn.relu(x @ first) @ second
            return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(64), y])

        gradients = jax.grad(loss_of)([weight.value for weight in weights])
        replica = mirrax.get_replica_context()
        for weight, gradient in zip(weights, replica.all_reduce("MEAN", gradients)):
            weight.assign_sub(0.01 * gradient)
        return gradients[1]

    run = mirrax.train.Checkpoint(weights=weights)
    manager = mirrax.train.CheckpointManager(
        run, folder / "checkpoints", max_to_keep=2, save_interval=interval
    )
    for step in mirrax.train.resumable(manager, steps):
        jax.block_until_ready(strategy.run(train))
        time.sleep(0.05)
        if strategy.is_chief:
            with (folder / "steps").open("a") as file:
                file.write(f"{STARTED} {step + 1} {time.time()}\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
