"""Trains a Flax Linen model on two replicas, in the functional style.

python examples/linen.py
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState

import mirrax


class Model(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.relu(nn.Dense(32)(x)))


@mirrax.function
def step(state, x, y):
    def loss_of(parameters):
        losses = (state.apply_fn(parameters, x) - y) ** 2
        return mirrax.nn.compute_average_loss(losses)

    shares = jax.value_and_grad(loss_of)(state.params)
    loss, gradients = mirrax.get_replica_context().all_reduce("SUM", shares)
    return state.apply_gradients(grads=gradients), loss


def main(steps=40):
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    model = Model()
    state = TrainState.create(
        apply_fn=model.apply,
        params=model.init(jax.random.key(0), jnp.ones((1, 8))),
        tx=optax.adam(1e-2),
    )

    random = np.random.default_rng(0)
    x = random.normal(size=(250, 8)).astype(np.float32)
    y = np.sin(x).sum(axis=1, keepdims=True)
    data = mirrax.data.Dataset.from_tensor_slices((x, y)).batch(64).repeat()
    batches = iter(strategy.experimental_distribute_dataset(data))
    losses = []
    for _ in range(steps):
        state, loss = strategy.run(step, (state, *next(batches)))
        losses.append(float(loss))
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    main()
