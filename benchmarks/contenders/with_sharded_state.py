"""Adam on a stack of layers: mirrored state, sharded state, and sharded by hand.

By hand is what an expert writes: `shard_map`, weights gathered for use, gradients
reduce-scattered, each device updating its part.
"""

import itertools

from serve import TEAM, serve

import mirrax

mirrax.config.set_logical_devices("CPU", TEAM.replicas)

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

BATCH = 256
WHOLE, SPLIT = PartitionSpec(), PartitionSpec("replica")


def initial_weights(sizes):
    rng = np.random.default_rng(0)
    return [
        rng.normal(size=shape, scale=0.03).astype("f")
        for shape in itertools.pairwise(sizes)
    ]


def rows_of(sizes):
    return np.random.default_rng(1).normal(size=(BATCH, sizes[0])).astype("f")


def loss_of(weights, x):
    for weight in weights:
        x = jax.nn.relu(x @ weight)
    return jnp.sum(x**2)


def adam(weight, mean, square, gradient):
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.99 * square + 0.01 * gradient * gradient
    return weight - 1e-3 * mean / (jnp.sqrt(square) + 1e-8), mean, square


def strategy_of(shard_state):
    devices = [f"CPU:{i}" for i in range(TEAM.replicas)]
    return mirrax.MirroredStrategy(devices, shard_state=shard_state)


def make_mirrax(sizes, shard_state):
    strategy = strategy_of(shard_state)
    with strategy.scope():
        weights = [mirrax.Variable(value) for value in initial_weights(sizes)]
        slots = [
            [mirrax.Variable(jnp.zeros(w.shape), trainable=False) for w in weights]
            for _ in range(2)
        ]

    @mirrax.function
    def step(x):
        def loss_fn():
            return loss_of([w.value for w in weights], x)

        result = mirrax.value_and_grad(loss_fn, weights)()
        loss, gradients = mirrax.get_replica_context().all_reduce("SUM", result)
        for gradient, *variables in zip(gradients, weights, *slots, strict=True):
            old = [variable.value for variable in variables]
            for variable, new in zip(variables, adam(*old, gradient), strict=True):
                variable.assign(new)
        return loss

    data = mirrax.data.Dataset.from_tensor_slices(rows_of(sizes)).batch(BATCH)
    batch = next(iter(strategy.experimental_distribute_dataset(data)))

    def run(repeats):
        for _ in range(repeats):
            loss = strategy.run(step, (batch,))
        return float(loss)

    return run


def make_by_hand(sizes):
    mesh = strategy_of(True).topology.mesh
    start = initial_weights(sizes)
    zeros = [np.zeros_like(weight) for weight in start]
    state = jax.device_put((start, zeros, zeros), NamedSharding(mesh, SPLIT))
    x = jax.device_put(rows_of(sizes), NamedSharding(mesh, SPLIT))

    def step(state, x):
        weights, means, squares = state
        gathered = [lax.all_gather(w, "replica", tiled=True) for w in weights]
        loss, gradients = jax.value_and_grad(loss_of)(gathered, x)
        own = [lax.psum_scatter(g, "replica", tiled=True) for g in gradients]
        new = map(adam, weights, means, squares, own)
        return tuple(map(list, zip(*new, strict=True))), lax.psum(loss, "replica")

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=((SPLIT, SPLIT, SPLIT), SPLIT),
        out_specs=((SPLIT, SPLIT, SPLIT), WHOLE),
        check_vma=False,
    )
    compiled = jax.jit(mapped, donate_argnums=0)

    def run(repeats):
        nonlocal state
        for _ in range(repeats):
            state, loss = compiled(state, x)
        return float(loss)

    return run


serve(mirrax=make_mirrax, by_hand=make_by_hand)
