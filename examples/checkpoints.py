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


def build(strategy):
    """Returns the whole state of a run as one checkpoint."""
    with strategy.scope():
        weight = mirrax.Variable(jnp.zeros(8))
        noise = mirrax.random.Generator(seed=0)
    x = np.random.default_rng(0).normal(size=(256, 8)).astype(np.float32)
    data = mirrax.data.Dataset.from_tensor_slices((x, x.sum(axis=1)))
    data = data.shuffle(256, seed=1).batch(32).repeat()
    batches = iter(strategy.experimental_distribute_dataset(data))
    return mirrax.train.Checkpoint(weight=weight, noise=noise, batches=batches, step=0)


def train(strategy, directory, steps):
    """Trains until `steps`, from the latest checkpoint; returns the weights."""
    run = build(strategy)
    manager = mirrax.train.CheckpointManager(
        run, directory, max_to_keep=3, save_interval=10, asynchronous=True
    )
    if manager.restore_or_initialize():
        print(f"resuming after step {run.step}")

    @mirrax.function
    def step(x, y):
        def loss_of():
            noisy = x + 0.01 * jax.random.normal(run.noise.key(), x.shape)
            losses = (noisy @ run.weight.value - y) ** 2
            return mirrax.nn.compute_average_loss(losses)

        _, gradient = mirrax.value_and_grad(loss_of, run.weight)()
        gradient = mirrax.get_replica_context().all_reduce("SUM", gradient)
        run.weight.assign_sub(0.05 * gradient)

    while run.step < steps:
        strategy.run(step, next(run.batches))
        run.step += 1
        manager.save(run.step)
    manager.save(run.step, check_interval=False)
    manager.wait()
    return run.weight.numpy()


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
