"""Trains a Flax NNX model with BatchNorm and Dropout on two replicas.

    python examples/nnx.py

The model and the optimizer are ordinary NNX objects; only the step is passed to `run`.
"""

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import mirrax


class Model(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 32, rngs=rngs)
        # `axis_name` makes the statistics those of the global batch.
        self.norm = nnx.BatchNorm(32, axis_name="replica", rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.last = nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))


def create_step(model, optimizer, metrics):
    @mirrax.function
    def step(x, y):
        def loss_of(model):
            losses = (model(x) - y) ** 2
            return mirrax.nn.compute_average_loss(losses), losses

        (_, losses), gradients = nnx.value_and_grad(loss_of, has_aux=True)(model)
        gradients = mirrax.get_replica_context().all_reduce("SUM", gradients)
        optimizer.update(model, gradients)
        metrics.update(loss=losses)

    return step


def main(epochs=5):
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    metrics = nnx.metrics.Average("loss")
    step = create_step(model, optimizer, metrics)

    random = np.random.default_rng(0)
    x = random.normal(size=(512, 8)).astype(np.float32)
    y = np.sin(x).sum(axis=1, keepdims=True)
    data = mirrax.data.Dataset.from_tensor_slices((x, y)).shuffle(512, seed=0)
    # Flax' BatchNorm needs the same number of rows on all replicas.
    data = data.batch(64, drop_remainder=True)
    losses = []
    for epoch in range(epochs):
        model.train()
        metrics.reset()
        for batch in strategy.experimental_distribute_dataset(data):
            strategy.run(step, batch)
        losses.append(float(metrics.compute()))
        print(f"epoch {epoch}: loss {losses[-1]:.3f}")
    model.eval()
    print(f"error {float(jnp.mean((model(x) - y) ** 2)):.3f}")
    return losses


if __name__ == "__main__":
    main()
