import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
import pytest

from mirrax.errors import CheckpointMismatchError
from mirrax.train import Checkpoint
from tests.programs import mirrored

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def build(strategy, units=4):
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(units), keras.layers.Dense(1)]
        )
        model.compile(optimizer="adam", loss="mse")
    return model


def test_model_and_its_optimizer_go_on_on_another_number_of_replicas(tmp_path):
    model = build(mirrored(2))
    model.fit(X, Y, batch_size=8, epochs=2, verbose=0)
    path = Checkpoint(model=model).save(tmp_path / "ckpt")
    other = build(mirrored(1))
    other.optimizer.build(other.trainable_variables)
    Checkpoint(model=other).restore(path)
    for one, two in zip(other.weights, model.weights):
        np.testing.assert_array_equal(one, two)
    model.fit(X, Y, batch_size=8, verbose=0)
    other.fit(X, Y, batch_size=8, verbose=0)
    np.testing.assert_allclose(other.weights[0], model.weights[0], rtol=1e-5)


def test_other_layers_are_listed(tmp_path, two_replicas):
    path = Checkpoint(model=build(two_replicas)).save(tmp_path / "ckpt")
    with pytest.raises(CheckpointMismatchError) as caught:
        Checkpoint(model=build(two_replicas, units=5)).restore(path)
    message = str(caught.value)
    assert "'model/0' has shape (3, 5), but shape (3, 4) was saved" in message
    assert "'model/2' has shape (5, 1), but shape (4, 1) was saved" in message
