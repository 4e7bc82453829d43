"""Trains, stops in the middle, and resumes exactly where it stopped.

    python examples/checkpoints.py [directory]

Run it with a directory, interrupt it at any moment, and run it again.
"""

import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

import mirrax


def train(strategy, directory, steps):
    """Trains until `steps`, from the newest checkpoint; returns the weights."""
    with strategy.scope():
        weight = mirrax.Variable(jnp.zeros(8))
        noise = mirrax.random.Generator(seed=0)
    x = np.random.default_rng(0).normal(size=(250, 8)).astype(np.float32)
    data = mirrax.data.Dataset.from_tensor_slices((x, x.sum(axis=1)))
    data = data.shuffle(250, seed=1).batch(32).repeat()
    batches = iter(strategy.experimental_distribute_dataset(data))

    # Everything that changes: the weights, the random numbers, the place in the data.
    run = mirrax.train.Checkpoint(weight=weight, noise=noise, batches=batches)
    manager = mirrax.train.CheckpointManager(
        run, directory, max_to_keep=3, save_interval=10, asynchronous=True
    )

    @mirrax.function
    def step(x, y):
        def loss_of():
            noisy = x + 0.01 * jax.random.normal(noise.key(), x.shape)
            return mirrax.nn.compute_average_loss((noisy @ weight.value - y) ** 2)

        _, gradient = mirrax.value_and_grad(loss_of, weight)()
        gradient = mirrax.get_replica_context().all_reduce("SUM", gradient)
        weight.assign_sub(0.05 * gradient)

    # Restores the newest checkpoint, if any; saves every 10 steps, at the end, and when
    # a scheduler sends SIGTERM.
    left = mirrax.train.resumable(manager, steps)
    for _ in mirrax.train.Progress(left, steps):
        strategy.run(step, next(batches))
    return weight.numpy()


def main(directory=None):
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    if directory is not None:
        print(train(strategy, directory, steps=100_000))
        return None
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as parts:
        expected = train(strategy, whole, steps=45)
        train(strategy, parts, steps=25)
        found = train(strategy, parts, steps=45)
    print(f"the same, bit by bit: {np.array_equal(found, expected)}")
    return np.array_equal(found, expected)


if __name__ == "__main__":
    main(*sys.argv[1:])
