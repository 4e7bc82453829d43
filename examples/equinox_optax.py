"""Trains an Equinox model with Optax on two replicas, in the functional style.

    python examples/equinox_optax.py

State goes in, new state comes out. Results that are equal on all replicas are plain
arrays, ready for the next step or any other JAX code.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import mirrax


def create_step(optimizer, static):
    def loss_of(parameters, x, y):
        model = eqx.combine(parameters, static)
        return mirrax.nn.compute_average_loss((jax.vmap(model)(x) - y) ** 2)

    @mirrax.function(donate_argnums=0)
    def step(state, x, y):
        parameters, slots = state
        shares = jax.value_and_grad(loss_of)(parameters, x, y)
        loss, gradients = mirrax.get_replica_context().all_reduce("SUM", shares)
        updates, slots = optimizer.update(gradients, slots)
        return (optax.apply_updates(parameters, updates), slots), loss

    return step


def main(steps=40):
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    optimizer = optax.adam(1e-2)
    model = eqx.nn.MLP(8, 1, 32, 1, key=jax.random.key(0))
    parameters, static = eqx.partition(model, eqx.is_array)
    step = create_step(optimizer, static)

    random = np.random.default_rng(0)
    x = random.normal(size=(250, 8)).astype(np.float32)
    y = np.sin(x).sum(axis=1, keepdims=True)
    data = mirrax.data.Dataset.from_tensor_slices((x, y)).batch(64).repeat()
    batches = iter(strategy.experimental_distribute_dataset(data))
    state = parameters, optimizer.init(parameters)
    losses = []
    for _ in range(steps):
        state, loss = strategy.run(step, (state, *next(batches)))
        losses.append(float(loss))
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    trained = eqx.combine(state[0], static)
    print(f"error {float(jnp.mean((jax.vmap(trained)(x) - y) ** 2)):.3f}")
    return losses


if __name__ == "__main__":
    main()
