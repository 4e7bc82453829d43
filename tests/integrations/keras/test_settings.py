"""Settings of layers and optimizers that change after a step was compiled."""

import gc
import weakref

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import mirrax

X = jnp.arange(24.0).reshape(8, 3) / 24


class Trainer:
    """A model with a step of the user's own, which trains what is trainable."""

    def __init__(self, strategy):
        keras.utils.set_random_seed(0)
        with strategy.scope():
            self.model = keras.Sequential(
                [
                    keras.Input((3,)),
                    keras.layers.Dense(3),
                    keras.layers.BatchNormalization(),
                    keras.layers.Dense(1),
                ]
            )
            self.optimizer = keras.optimizers.SGD(0.1)
            self.optimizer.build(self.model.trainable_variables)
        self.step = mirrax.function(self.update)
        self.run = lambda: strategy.run(self.step)

    def update(self):
        def loss():
            return mirrax.nn.compute_average_loss(self.model(X, training=True) ** 2)

        trained = self.model.trainable_variables
        _, gradients = mirrax.value_and_grad(loss, trained)()
        self.optimizer.apply(gradients, trained)

    def changed(self):
        """Returns which weights change in a step."""
        before = self.model.get_weights()
        self.run()
        pairs = zip(before, self.model.get_weights(), strict=True)
        return [not np.array_equal(old, new) for old, new in pairs]


# Kernel and bias; scale, offset, moving mean and variance; kernel and bias.
ALL = [True] * 8
LAST = [False] * 6 + [True] * 2


@pytest.fixture
def trainer(strategy):
    return Trainer(strategy)


def test_a_layer_frozen_after_a_step_stays_as_it_is(trainer):
    assert trainer.changed() == ALL
    for layer in trainer.model.layers[:2]:
        layer.trainable = False
    assert trainer.changed() == LAST
    for layer in trainer.model.layers[:2]:
        layer.trainable = True
    assert trainer.changed() == ALL


def test_a_variable_frozen_after_a_step_stays_as_it_is(trainer):
    trainer.run()
    trainer.model.layers[0].bias.trainable = False
    assert trainer.changed() == [True, False, *ALL[2:]]


def test_alternating_between_frozen_and_trained_compiles_once_more(trainer):
    trainer.run()
    before = trainer.step.trace_count
    for trainable in [False, True] * 5:
        trainer.model.layers[0].trainable = trainable
        trainer.run()
    assert trainer.step.trace_count == before + 1


def test_settings_of_other_models_compile_nothing(trainer, strategy):
    trainer.run()
    before = trainer.step.trace_count
    other = Trainer(strategy)
    other.model.trainable = False
    trainer.run()
    del other
    gc.collect()
    trainer.run()
    assert trainer.step.trace_count == before


def test_a_schedule_that_refers_to_its_optimizer_goes_with_it(strategy):
    def train():
        trainer = Trainer(strategy)
        optimizer = trainer.optimizer
        optimizer.learning_rate = lambda: 0.1 / (1 + optimizer.iterations)
        trainer.run()
        return weakref.ref(optimizer)

    optimizer = train()
    gc.collect()
    assert optimizer() is None


def test_a_schedule_set_after_a_step_is_followed(trainer):
    trainer.run()
    decay = keras.optimizers.schedules.ExponentialDecay
    trainer.optimizer.learning_rate = decay(0.0, 1, 1.0)
    assert trainer.changed() == [False] * 4 + [True] * 2 + [False] * 2
    trainer.optimizer.learning_rate = decay(0.1, 1, 1.0)
    assert trainer.changed() == ALL


def test_fit_follows_a_schedule_set_after_another_fit(strategy):
    trainer = Trainer(strategy)
    trainer.model.compile(trainer.optimizer, "mse")
    labels = np.zeros((8, 1))
    trainer.model.fit(X, labels, batch_size=8, verbose=0)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.0, 1, 1.0)
    trainer.optimizer.learning_rate = schedule
    before = trainer.model.layers[0].kernel.numpy()
    trainer.model.fit(X, labels, batch_size=8, verbose=0)
    np.testing.assert_array_equal(trainer.model.layers[0].kernel, before)
