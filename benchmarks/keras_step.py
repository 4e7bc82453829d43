"""Keras models: a step of one's own against raw JAX, and `fit` against DataParallel.

KERAS_BACKEND=jax python benchmarks/keras_step.py
"""

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec
from paired import compare

import mirrax

RATE = 0.01
NUM_REPLICAS = 2
MODELS = {"784-1024-1024-10, batch 256": ((784, 1024, 1024, 10), 256)}
SMALL = {"64-64-64-10, batch 32": ((64, 64, 64, 10), 32)}


def build(sizes):
    keras.utils.set_random_seed(0)
    *hidden, last = sizes[1:]
    return keras.Sequential(
        [
            keras.Input((sizes[0],)),
            *(keras.layers.Dense(size, activation="relu") for size in hidden),
            keras.layers.Dense(last),
        ]
    )


def rows_of(sizes, rows):
    random = np.random.default_rng(0)
    images = random.normal(size=(rows, sizes[0])).astype(np.float32)
    return images, random.integers(0, sizes[-1], rows).astype(np.int32)


def loss_of(logits, labels, batch):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -chosen.sum() / batch


def by_hand(strategy, sizes, batch, images, labels):
    """Returns one step of SGD, as an expert of JAX writes it."""
    topology = strategy.topology
    state = [jax.device_put(w, topology.replicated) for w in build(sizes).get_weights()]

    def forward(parameters, images, labels):
        *hidden, weights, bias = parameters
        for w, b in zip(hidden[::2], hidden[1::2]):
            images = jax.nn.relu(images @ w + b)
        return loss_of(images @ weights + bias, labels, batch)

    def step(parameters, images, labels):
        loss, gradients = jax.value_and_grad(forward)(parameters, images, labels)
        gradients = lax.psum(gradients, "replica")
        new = [p - RATE * g for p, g in zip(parameters, gradients)]
        return new, loss[None]

    whole, split = PartitionSpec(), PartitionSpec("replica")
    compiled = jax.jit(
        jax.shard_map(
            step,
            mesh=topology.mesh,
            in_specs=(whole, split, split),
            out_specs=(whole, split),
            check_vma=False,
        ),
        donate_argnums=0,
    )
    images, labels = jax.device_put((images, labels), topology.split)

    def call():
        nonlocal state
        state, loss = compiled(state, images, labels)
        return loss

    return call


def with_keras(strategy, sizes, batch, images, labels):
    """Returns one step of a Keras model and a Keras optimizer."""
    with strategy.scope():
        model = build(sizes)
        optimizer = keras.optimizers.SGD(RATE)

    @mirrax.function
    def step(images, labels):
        def forward():
            return loss_of(model(images, training=True), labels, batch)

        differentiated = mirrax.value_and_grad(forward, model.trainable_variables)
        loss, gradients = differentiated()
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    dataset = mirrax.data.Dataset.from_tensor_slices((images, labels)).batch(batch)
    ((images, labels),) = strategy.experimental_distribute_dataset(dataset)
    return lambda: strategy.run(step, args=(images, labels))


def fitted(model, batch, images, labels):
    """Returns an epoch of `fit` as a function."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(RATE), loss)

    def call():
        model.fit(images, labels, batch_size=batch, verbose=0)
        return model.weights[0].value

    return call


def main():
    devices = [f"CPU:{index}" for index in range(NUM_REPLICAS)]
    strategy = mirrax.MirroredStrategy(devices)
    keeps = []
    for name, (sizes, batch) in (MODELS | SMALL).items():
        data = rows_of(sizes, batch)
        ours = with_keras(strategy, sizes, batch, *data)
        theirs = by_hand(strategy, sizes, batch, *data)
        for own, raw in zip(ours().values, theirs(), strict=True):
            np.testing.assert_allclose(own, raw, rtol=1e-4)
        result = compare(ours, theirs)
        keeps.append(result.report(f"step of one's own, {name}", 1.10))
    distribution = keras.distribution.DataParallel(
        devices=[f"cpu:{index}" for index in range(NUM_REPLICAS)]
    )
    for name, (sizes, batch) in (MODELS | SMALL).items():
        data = rows_of(sizes, 20 * batch)
        with strategy.scope():
            ours = fitted(build(sizes), batch, *data)
        with distribution.scope():
            model = build(sizes)
            inner = fitted(model, batch, *data)

        def theirs(inner=inner):
            with distribution.scope():
                return inner()

        result = compare(ours, theirs, calls=1, rounds=15)
        keeps.append(result.report(f"fit against DataParallel, {name}", 1.00))
    return 0 if all(keeps) else 1


if __name__ == "__main__":
    sys.exit(main())
