"""Gradient accumulation: a batch too large for memory, in micro-batches.

python examples/accumulation.py
"""

import jax.numpy as jnp
import numpy as np

import mirrax


def train(strategy, micro_batches, x, y):
    with strategy.scope():
        weight = mirrax.Variable(jnp.zeros(8))

    # A plain mean: micro-batches and replicas are weighted by their rows afterwards.
    def loss_of(x, y):
        return jnp.mean((x @ weight.value - y) ** 2)

    @mirrax.function
    def step(x, y):
        gradients_of = mirrax.value_and_grad(loss_of, weight)
        # Adds up over the micro-batches, then over the replicas: no `all_reduce` here.
        whole = mirrax.accumulate_gradients(gradients_of, micro_batches)
        loss, gradient = whole(x, y)
        weight.assign_sub(0.1 * gradient)
        return loss

    data = mirrax.data.Dataset.from_tensor_slices((x, y)).batch(64)
    for batch in strategy.experimental_distribute_dataset(data):
        strategy.run(step, batch)
    return weight.numpy()


def main():
    x = np.random.default_rng(0).normal(size=(250, 8)).astype(np.float32)
    y = x.sum(axis=1)
    # The strategy with the most devices comes first: JAX makes them only once.
    two_devices = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    one_device = mirrax.OneDeviceStrategy("CPU:0")
    pieces = train(two_devices, 4, x, y)
    alone = train(one_device, 1, x, y)
    print(f"largest difference: {np.abs(alone - pieces).max():.1e}")
    return float(np.abs(alone - pieces).max())


if __name__ == "__main__":
    main()
