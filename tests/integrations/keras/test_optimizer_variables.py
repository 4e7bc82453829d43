"""Optimizers of Keras on variables of Mirrax."""

import copy

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import mirrax
from mirrax.integrations.keras.inside_run import keras_variable_of


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("is_built", [False, True], ids=["unbuilt", "built"])
def test_an_optimizer_changes_variables_of_mirrax(strategy, is_built, is_compiled):
    with strategy.scope():
        weights = [mirrax.Variable([1.0, 2.0]), mirrax.Variable(3.0)]
        optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
    if is_built:
        with strategy.scope():
            optimizer.build(weights)

    def step():
        with mirrax.GradientTape() as tape:
            loss = jnp.sum(weights[0] * weights[1]) / strategy.num_replicas_in_sync
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))

    step = mirrax.function(step) if is_compiled else step
    strategy.run(step)
    np.testing.assert_allclose(weights[0].numpy(), [0.7, 1.7], rtol=1e-6)
    np.testing.assert_allclose(weights[1].numpy(), 2.7, rtol=1e-6)
    strategy.run(step)
    np.testing.assert_allclose(weights[0].numpy(), [0.28, 1.28], rtol=1e-6)


def test_an_optimizer_works_outside_of_every_strategy():
    weight = mirrax.Variable([1.0, 2.0])
    optimizer = keras.optimizers.Adam(0.5)
    optimizer.apply_gradients([(jnp.asarray([1.0, -1.0]), weight)])
    np.testing.assert_allclose(weight.numpy(), [0.5, 2.5], rtol=1e-5)


def test_a_variable_has_one_face_and_its_copy_another():
    weight = mirrax.Variable(1.0, name="outer/weight")
    face = keras_variable_of(weight)
    assert keras_variable_of(weight) is face
    assert face.shape == ()
    other = copy.deepcopy(weight)
    keras_variable_of(other).assign(5.0)
    assert (weight.numpy(), other.numpy()) == (1, 5)
    assert float(face.value) == 1
