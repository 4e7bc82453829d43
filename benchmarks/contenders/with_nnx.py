"""A Flax NNX model with Adam: given to Mirrax' `run`, or split up by hand for JAX."""

from serve import TEAM, serve, set_jax_devices

if TEAM.variant != "mirrax":
    set_jax_devices()

import jax
import numpy as np
import optax
from flax import nnx
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import mirrax

WIDTH = 64


class Model(nnx.Module):
    def __init__(self, layers, rngs):
        self.layers = nnx.List(
            [nnx.Linear(WIDTH, WIDTH, rngs=rngs) for _ in range(layers)]
        )
        self.last = nnx.Linear(WIDTH, 10, rngs=rngs)

    def __call__(self, x):
        for layer in self.layers:
            x = nnx.relu(layer(x))
        return self.last(x)


def loss_of(model, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()


def batch():
    random = np.random.default_rng(0)
    x = random.normal(size=(32, WIDTH)).astype(np.float32)
    return x, random.integers(0, 10, 32).astype(np.int32)


def with_mirrax(layers):
    strategy = mirrax.MirroredStrategy([f"CPU:{i}" for i in range(TEAM.replicas)])
    model = Model(layers, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    @mirrax.function
    def step(model, optimizer, x, y):
        loss, gradients = nnx.value_and_grad(loss_of)(model, x, y)
        context = mirrax.get_replica_context()
        loss, gradients = context.all_reduce("MEAN", (loss, gradients))
        optimizer.update(model, gradients)
        return loss

    data = mirrax.data.Dataset.from_tensor_slices(batch()).batch(32)
    parts = next(iter(strategy.experimental_distribute_dataset(data)))

    def train(repeats):
        for _ in range(repeats):
            loss = strategy.run(step, (model, optimizer, *parts))
        return float(loss)

    return train


def by_hand(layers):
    mesh = Mesh(np.array(jax.devices()), ("replica",))
    whole, split = PartitionSpec(), PartitionSpec("replica")
    graph, parameters = nnx.split(Model(layers, nnx.Rngs(0)))
    adam = optax.adam(1e-3)
    state = parameters, adam.init(parameters)
    state = jax.device_put(state, NamedSharding(mesh, whole))
    x, y = jax.device_put(batch(), NamedSharding(mesh, split))

    def step(state, x, y):
        parameters, slots = state
        loss, gradients = jax.value_and_grad(
            lambda p: loss_of(nnx.merge(graph, p), x, y)
        )(parameters)
        loss, gradients = lax.pmean((loss, gradients), "replica")
        updates, slots = adam.update(gradients, slots)
        return (optax.apply_updates(parameters, updates), slots), loss

    specs = {"in_specs": (whole, split, split), "out_specs": (whole, whole)}
    mapped = jax.shard_map(step, mesh=mesh, check_vma=False, **specs)
    compiled = jax.jit(mapped, donate_argnums=0)

    def train(repeats):
        nonlocal state
        for _ in range(repeats):
            state, loss = compiled(state, x, y)
        return float(loss)

    return train


serve(nnx=with_mirrax if TEAM.variant == "mirrax" else by_hand)
