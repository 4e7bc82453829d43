"""Adam with a quarter of its state on each of four devices.

python examples/sharded_state.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import mirrax

SIZE, ROWS = 256, 64


def train(strategy, x, y):
    """Returns the losses, and the memory that the step needs."""
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    rng = np.random.default_rng(0)
    params = {
        "hidden": rng.normal(size=(SIZE, SIZE), scale=0.05).astype("f"),
        "out": rng.normal(size=(SIZE, 1), scale=0.05).astype("f"),
    }
    state = (params, optimizer.init(params))
    if strategy.shard_bytes is not None:
        # From here on each device stores a part; the step below sees whole arrays.
        state = strategy.shard(state)

    def loss_of(params, x, y):
        predicted = jnp.tanh(x @ params["hidden"]) @ params["out"]
        return mirrax.nn.compute_average_loss((predicted[:, 0] - y) ** 2)

    @mirrax.function(donate_argnums=0)
    def step(state, x, y):
        params, slots = state
        result = jax.value_and_grad(loss_of)(params, x, y)
        loss, gradients = mirrax.get_replica_context().all_reduce("SUM", result)
        updates, slots = optimizer.update(gradients, slots, params)
        return (optax.apply_updates(params, updates), slots), loss

    data = mirrax.data.Dataset.from_tensor_slices((x, y)).batch(ROWS)
    losses = []
    for batch in strategy.experimental_distribute_dataset(data):
        state, loss = strategy.run(step, (state, *batch))
        losses.append(float(loss))
    return losses, strategy.memory_report()


def main():
    x = np.random.default_rng(1).normal(size=(20 * ROWS - 3, SIZE)).astype("f")
    y = x[:, :8].mean(axis=1)
    devices = [f"CPU:{i}" for i in range(4)]
    results = {}
    for name, shard_state in (("mirrored", False), ("sharded", True)):
        strategy = mirrax.MirroredStrategy(devices, shard_state=shard_state)
        results[name] = losses, report = train(strategy, x, y)
        print(f"{name}: last loss {losses[-1]:.6f}\n{report}")
    return results


if __name__ == "__main__":
    main()
