"""What workers that shard their state do."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.experimental import multihost_utils

import mirrax


def train_on_workers(folder):
    """Returns what training gives, and after a restored checkpoint."""
    strategy = mirrax.MultiWorkerMirroredStrategy(shard_state=1)
    weight, state = train(strategy)
    assert type(weight).__name__ == "ShardedVariable"
    assert not state[0]["w"].sharding.is_fully_replicated
    sizes = [shard.data.shape for shard in weight.stored.addressable_shards]
    if strategy.topology.worker_index == 0:  # One worker alone cannot read it.
        assert "shape=(9, 6) dtype=float32>" in repr(weight)
        assert "(9, 6)" in weight._repr_html_()
    trained = whole_values(weight, state)
    checkpoint = mirrax.train.Checkpoint(weight=weight, state=state)
    checkpoint.write(folder)
    refuse_own_mesh(folder)
    weight.assign(np.zeros((9, 6), "f"))
    checkpoint.state = jax.tree.map(lambda x: x * 0, state)
    checkpoint.read(folder)
    assert not checkpoint.state[0]["w"].sharding.is_fully_replicated
    return sizes, trained, whole_values(weight, checkpoint.state)


def refuse_own_mesh(folder):
    """Checks that no part of an array is taken for the whole."""
    mesh = jax.make_mesh((4,), ("data",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    array = jax.make_array_from_callback((4,), rows, np.arange(4).__getitem__)
    message = "cut over the devices of several workers"
    with pytest.raises(ValueError, match=message):
        mirrax.Variable(array)
    with pytest.raises(ValueError, match=message):
        mirrax.train.Checkpoint(w=[array]).write(f"{folder}_refused")


def whole_values(weight, state):
    """Returns the value of the variable and of the functional weight."""
    whole = multihost_utils.process_allgather(state[0]["w"], tiled=True)
    return weight.numpy().tolist(), whole.tolist()


def train(strategy):
    """Trains a variable and functional state."""
    rng = np.random.default_rng(strategy.topology.worker_index)
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2))
    with strategy.scope():
        # Workers start with the value of the first one. 9 rows are padded.
        weight = mirrax.Variable(rng.normal(size=(9, 6)).astype("f"))
        slot = mirrax.Variable(np.zeros((9, 6), "f"))
    first = rng.normal(size=(12, 6)).astype("f")
    state = ({"w": first}, optimizer.init({"w": first}))
    state = strategy.shard(state)

    @mirrax.function
    def step(x):
        loss = lambda: jnp.sum((x[:, :9] @ weight.value) ** 2) / 16  # noqa: E731
        _, gradient = mirrax.value_and_grad(loss, weight)()
        gradient = mirrax.get_replica_context().all_reduce("SUM", gradient)
        slot.assign(0.9 * slot + gradient)
        weight.assign_sub(0.01 * slot / jnp.sqrt(jnp.sum(slot.value**2)))

    @mirrax.function(donate_argnums=0)
    def functional_step(state, x):
        params, slots = state
        loss = lambda p: jnp.sum((x @ p["w"]) ** 2) / 16  # noqa: E731
        grads = jax.grad(loss)(params)
        grads = mirrax.get_replica_context().all_reduce("SUM", grads)
        changes, slots = optimizer.update(grads, slots, params)
        return optax.apply_updates(params, changes), slots

    rows = np.random.default_rng(1).normal(size=(85, 12)).astype("f")
    dataset = mirrax.data.Dataset.from_tensor_slices(rows).batch(16)
    for batch in strategy.experimental_distribute_dataset(dataset):
        strategy.run(step, (batch,))
        state = strategy.run(functional_step, (state, batch))
    strategy.run(lambda: weight.assign_add(jnp.ones((9, 6))))
    return weight, state
