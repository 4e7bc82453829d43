"""Trains a Keras model in a custom loop, on all replicas of a strategy.

    KERAS_BACKEND=jax python examples/keras_custom_loop.py [--replicas 2] [--epochs 5]

The step is what one replica does with its part of a batch. The optimizer sums the
gradients of all replicas; the metrics count all of them.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from sklearn.datasets import load_digits

import mirrax

BATCH_SIZE = 64


def load():
    """Returns images as vectors, and their labels."""
    digits = load_digits()
    return (digits.data / 16).astype(np.float32), digits.target.astype(np.int32)


def create_model():
    return keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10),
        ]
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args(arguments)
    devices = [f"CPU:{index}" for index in range(options.replicas)]
    strategy = mirrax.MirroredStrategy(devices)

    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = create_model()
        optimizer = keras.optimizers.Adam(1e-2)
        accuracy = keras.metrics.SparseCategoricalAccuracy()
        mean_loss = keras.metrics.Mean()
    losses = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="none"
    )

    @mirrax.function
    def step(images, labels):
        def loss_of():
            scores = model(images, training=True)
            each = losses(labels, scores)
            # This replica's share of the mean over all rows; Keras adds them up.
            return mirrax.nn.compute_average_loss(each), (each, scores)

        differentiated = mirrax.value_and_grad(
            loss_of, model.trainable_variables, has_aux=True
        )
        (_, (each, scores)), gradients = differentiated()
        optimizer.apply(gradients, model.trainable_variables)
        accuracy.update_state(labels, scores)
        mean_loss.update_state(each)

    dataset = mirrax.data.Dataset.from_tensor_slices(load())
    dataset = dataset.shuffle(2000, seed=0).batch(BATCH_SIZE)
    distributed = strategy.experimental_distribute_dataset(dataset)
    for epoch in range(1, options.epochs + 1):
        accuracy.reset_state()
        mean_loss.reset_state()
        for batch in distributed:
            strategy.run(step, args=batch)
        found, loss = float(accuracy.result()), float(mean_loss.result())
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {found:.3f}")
    return loss


if __name__ == "__main__":
    main()
