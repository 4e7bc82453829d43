"""Trains a Keras model on handwritten digits with `fit`, on all replicas of a strategy.

    KERAS_BACKEND=jax python examples/keras_fit.py [--replicas 2] [--epochs 5]

Only the scope differs from a program for one device. On several machines, use
`mirrax.MultiWorkerMirroredStrategy()` and `mirrax launch`.
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
    """Returns training and test data: images, and labels."""
    digits = load_digits()
    images = (digits.images[..., None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1500], order[1500:]
    return (images[train], labels[train]), (images[test], labels[test])


def create_model():
    """Returns a small convolutional network, ready to be trained."""
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, use_bias=False),
            keras.layers.BatchNormalization(),
            keras.layers.Activation("relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


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
    train, test = load()
    # The partial last batch of 28 rows is neither padded nor dropped.
    model.fit(*train, batch_size=BATCH_SIZE, epochs=options.epochs, verbose=2)
    loss, accuracy = model.evaluate(*test, batch_size=BATCH_SIZE, verbose=0)
    print(f"{options.replicas} replica(s): accuracy on unseen digits {accuracy:.3f}")
    return loss


if __name__ == "__main__":
    main()
