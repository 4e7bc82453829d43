"""A compiled training step against the same step written by hand with shard_map."""

import itertools
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from paired import compare

import mirrax

RATE = 0.01


def initial_parameters(sizes):
    random = np.random.default_rng(0)
    return [
        array
        for rows, columns in itertools.pairwise(sizes)
        for array in (
            random.normal(size=(rows, columns)).astype(np.float32) * 0.05,
            np.zeros(columns, np.float32),
        )
    ]


def loss_of(parameters, images, labels, global_batch):
    *hidden, weights, bias = parameters
    for w, b in zip(hidden[::2], hidden[1::2]):
        images = jax.nn.relu(images @ w + b)
    logits = jax.nn.log_softmax(images @ weights + bias)
    return -jnp.take_along_axis(logits, labels[:, None], 1).sum() / global_batch


def by_hand(strategy, sizes, batch, images, labels):
    """Returns one step, as an expert of JAX writes it."""
    mesh = strategy.topology.mesh
    whole, split = PartitionSpec(), PartitionSpec("replica")
    state = [
        jax.device_put(array, NamedSharding(mesh, whole))
        for array in initial_parameters(sizes)
    ]

    def step(parameters, images, labels):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels, batch)
        gradients, loss = lax.psum((gradients, loss), "replica")
        return [p - RATE * g for p, g in zip(parameters, gradients)], loss

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
        state, loss = compiled(state, images, labels)
        return loss

    return call


def with_mirrax(strategy, sizes, batch, images, labels):
    """Returns one step of a function given to `run`."""
    with strategy.scope():
        variables = [mirrax.Variable(array) for array in initial_parameters(sizes)]

    @mirrax.function
    def step(images, labels):
        def loss_fn():
            return loss_of([v.value for v in variables], images, labels, batch)

        loss, gradients = mirrax.value_and_grad(loss_fn, variables)()
        context = mirrax.get_replica_context()
        gradients, loss = context.all_reduce("SUM", (gradients, loss))
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(RATE * gradient)
        return loss

    return lambda: strategy.run(step, args=(images, labels))


def with_whole_step(strategy, sizes, batch, images, labels):
    """Returns one step of a function around `run` and `reduce`."""
    with strategy.scope():
        variables = [mirrax.Variable(array) for array in initial_parameters(sizes)]

    def replica_step(images, labels):
        def loss_fn():
            return loss_of([v.value for v in variables], images, labels, batch)

        loss, gradients = mirrax.value_and_grad(loss_fn, variables)()
        gradients = mirrax.get_replica_context().all_reduce("SUM", gradients)
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(RATE * gradient)
        return loss

    @mirrax.function
    def step(images, labels):
        losses = strategy.run(replica_step, args=(images, labels))
        return strategy.reduce("SUM", losses, axis=None)

    return lambda: step(images, labels)


def measure(sizes, batch, limit, calls):
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    random = np.random.default_rng(1)
    rows = batch // 2

    def parts(make):
        whole = make()
        return strategy.experimental_distribute_values_from_function(
            lambda c: jnp.asarray(whole[c.replica_id_in_sync_group * rows :][:rows])
        )

    images = parts(lambda: random.normal(size=(batch, sizes[0])).astype(np.float32))
    labels = parts(lambda: random.integers(0, sizes[-1], batch).astype(np.int32))
    sharding = strategy.topology.split
    joined = [
        jax.make_array_from_single_device_arrays(
            (batch, *value.values[0].shape[1:]), sharding, list(value.values)
        )
        for value in (images, labels)
    ]
    theirs = by_hand(strategy, sizes, batch, *joined)
    name = "-".join(map(str, sizes)) + f" at batch {batch}"
    kept = True
    for label, make in (("run", with_mirrax), ("function", with_whole_step)):
        ours = make(strategy, sizes, batch, images, labels)
        kept &= compare(ours, theirs, calls).report(f"{name}, {label}", limit)
    return kept


def main():
    kept = measure([784, 1024, 1024, 10], 256, limit=1.03, calls=5)
    kept &= measure([64, 64, 64, 10], 32, limit=1.10, calls=50)
    sys.exit(not kept)


if __name__ == "__main__":
    main()
