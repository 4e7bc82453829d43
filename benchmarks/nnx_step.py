"""A training step of a Flax NNX model: under a strategy, in plain JAX, and by nnx.jit.

    python benchmarks/nnx_step.py [--replicas 2]

Plain JAX is the functional step that an expert writes: `nnx.split` once, `nnx.merge`
while it is traced, `shard_map` over the replicas, buffers overwritten. The figure of
`nnx.jit` is for one device, as most programs use it; it has no limit.
"""

import argparse
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from paired import compare

import mirrax

LIMIT = 1.20
WIDTH = 256


class Model(nnx.Module):
    def __init__(self, layers, rngs):
        self.first = nnx.Linear(64, WIDTH, rngs=rngs)
        self.blocks = nnx.List(
            [nnx.Linear(WIDTH, WIDTH, rngs=rngs) for _ in range(layers)]
        )
        self.last = nnx.Linear(WIDTH, 10, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.first(x))
        for block in self.blocks:
            x = nnx.relu(block(x))
        return self.last(x)


def loss_of(model, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()


def with_mirrax(strategy, layers, batch):
    model = Model(layers, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    @mirrax.function
    def step(model, optimizer, x, y):
        loss, gradients = nnx.value_and_grad(loss_of)(model, x, y)
        context = mirrax.get_replica_context()
        loss, gradients = context.all_reduce("MEAN", (loss, gradients))
        optimizer.update(model, gradients)
        return loss

    data = mirrax.data.Dataset.from_tensor_slices(batch).batch(len(batch[0]))
    parts = next(iter(strategy.experimental_distribute_dataset(data)))
    return lambda: strategy.run(step, (model, optimizer, *parts))


def by_hand(strategy, layers, batch):
    mesh = strategy.topology.mesh
    whole, split = PartitionSpec(), PartitionSpec("replica")
    graph, parameters = nnx.split(Model(layers, nnx.Rngs(0)))
    adam = optax.adam(1e-3)
    state = jax.device_put(
        (parameters, adam.init(parameters)), NamedSharding(mesh, whole)
    )
    x, y = (jax.device_put(array, NamedSharding(mesh, split)) for array in batch)

    def step(state, x, y):
        parameters, slots = state
        loss, gradients = jax.value_and_grad(
            lambda p: loss_of(nnx.merge(graph, p), x, y)
        )(parameters)
        loss, gradients = lax.pmean((loss, gradients), "replica")
        updates, slots = adam.update(gradients, slots)
        return (optax.apply_updates(parameters, updates), slots), loss

    compiled = jax.jit(
        jax.shard_map(
            step,
            mesh=mesh,
            in_specs=(whole, split, split),
            out_specs=(whole, whole),
            check_vma=False,
        ),
        donate_argnums=0,
    )

    def call():
        nonlocal state
        state, loss = compiled(state, x, y)
        return loss

    return call


def with_nnx_jit(layers, batch):
    model = Model(layers, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    x, y = map(jnp.asarray, batch)

    @nnx.jit
    def step(model, optimizer, x, y):
        loss, gradients = nnx.value_and_grad(loss_of)(model, x, y)
        optimizer.update(model, gradients)
        return loss

    return lambda: step(model, optimizer, x, y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=2)
    replicas = parser.parse_args().replicas
    strategy = mirrax.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])
    alone = mirrax.MirroredStrategy(["CPU:0"])
    random = np.random.default_rng(0)
    kept = True
    for layers in (2, 30):
        batch = (
            random.normal(size=(32, 64)).astype(np.float32),
            random.integers(0, 10, 32).astype(np.int32),
        )
        name = f"NNX, {layers} layers"
        calls = 20 if layers < 10 else 5
        theirs = by_hand(strategy, layers, batch)
        ours = with_mirrax(strategy, layers, batch)
        kept &= compare(ours, theirs, calls).report(
            f"{name}, {replicas} replicas", LIMIT
        )
        theirs = by_hand(alone, layers, batch)
        ours = with_mirrax(alone, layers, batch)
        kept &= compare(ours, theirs, calls).report(f"{name}, one device", LIMIT)
        plain = compare(with_nnx_jit(layers, batch), theirs, calls)
        plain.report(f"{name}, nnx.jit on one device", float("inf"))
    sys.exit(not kept)


if __name__ == "__main__":
    main()
