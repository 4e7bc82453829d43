"""Models of all sorts, trained in all sorts of ways, as one device does it."""

import contextlib

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

from tests.conftest import mirrored
from tests.integrations.keras import programs
from tests.integrations.keras.test_models import assert_same

RNG = np.random.default_rng(programs.SEED)
X = RNG.normal(size=(19, 6)).astype("float32")
Y = RNG.integers(0, 3, 19)


def fit(model, x=X, y=Y, **options):
    options = {"batch_size": 8, "epochs": 2, "verbose": 0} | options
    return model.fit(x, y, **options).history, model.get_weights()


def dense(**options):
    model = keras.Sequential(programs.linear())
    model.compile("sgd", programs.loss(), **options)
    return model


def several_inputs_and_outputs(scope):
    with scope:
        inputs = {name: keras.Input((6,), name=name) for name in "ab"}
        both = keras.layers.Concatenate()(list(inputs.values()))
        outputs = {
            "label": keras.layers.Dense(3, name="label")(both),
            "size": keras.layers.Dense(1, name="size")(both),
        }
        model = keras.Model(inputs, outputs)
        model.compile(
            "sgd",
            {"label": programs.loss(), "size": "mse"},
            metrics={"label": ["accuracy"], "size": ["mae"]},
            loss_weights={"label": 1.0, "size": 0.5},
        )
    x, y = {"a": X, "b": X[:, ::-1]}, {"label": Y, "size": X[:, :1]}
    weights = {"label": np.linspace(0, 1, 19), "size": np.ones(19)}
    return (
        fit(model, x, y, sample_weight=weights, validation_data=(x, y)),
        model.predict(x, batch_size=7, verbose=0),
    )


def fewer_rows_than_replicas(scope):
    with scope:
        model = dense()
    return fit(model, X[:3], Y[:3]), fit(model, X[:1], Y[:1])


def made_elsewhere(scope):
    inner = keras.Sequential([keras.Input((6,)), keras.layers.BatchNormalization()])
    with scope:
        model = keras.Sequential([keras.Input((6,)), inner, keras.layers.Dense(3)])
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    model.compile(keras.optimizers.SGD(), programs.loss(), metrics=[accuracy])
    return fit(model), inner.predict(X[:3], verbose=0)


def mixed_precision(scope):
    policy = keras.mixed_precision.DTypePolicy("mixed_float16")
    with scope:
        model = keras.Sequential(
            [keras.Input((6,)), keras.layers.Dense(3, dtype=policy)]
        )
        # Which multiplies the loss, and divides the gradients.
        optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD())
        model.compile(optimizer, programs.loss())
    return jax.tree.map(lambda value: np.round(value, 3), fit(model))


def stateful_recurrence(scope):
    with scope:
        cell = keras.layers.SimpleRNN(4, stateful=True)
        model = keras.Sequential(
            [keras.Input(batch_shape=(4, 3, 2)), cell, keras.layers.Dense(3)]
        )
        model.compile("sgd", programs.loss())
    history = fit(model, X[:8].reshape(8, 3, 2), Y[:8], batch_size=4, shuffle=False)
    return history, np.asarray(cell.states[0])


class OwnStep(keras.Model):
    """A model that says itself what a step is."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3, kernel_initializer="ones")

    def call(self, x):
        return self.dense(x)

    def train_step(self, state, data):
        trained, others, slots, counts = state
        x, y = data

        def loss_of(trained):
            scores, new = self.stateless_call(trained, others, x)
            return jnp.sum(self.loss(y, scores)), new

        (loss, others), grads = jax.value_and_grad(loss_of, has_aux=True)(trained)
        trained, slots = self.optimizer.stateless_apply(slots, grads, trained)
        return {"loss": loss}, (trained, others, slots, counts)


def own_step(scope):
    with scope:
        model = OwnStep()
        model.compile("adam", programs.loss())
    return fit(model)


class OwnLoss(keras.Model):
    """A model with a loss and a metric of its own."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3, kernel_initializer="ones")
        self.largest = keras.metrics.MeanMetricWrapper(
            lambda _, scores: keras.ops.max(scores, axis=-1), name="largest"
        )

    def call(self, x):
        return self.dense(x)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
        return 2 * programs.loss()(y, y_pred)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.largest.update_state(y, y_pred)
        return self.get_metrics_result()


def own_loss_and_metric(scope):
    with scope:
        model = OwnLoss()
        model.compile("sgd")
    return fit(model, validation_data=(X[:9], Y[:9]))


def test_weights_that_share_arrays_with_moving_averages_train_on():
    with mirrored(2).scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(use_ema=True, ema_momentum=0.0), "mse")
    x, y = X[:8], X[:8, :1]
    # Keras ends `fit` by assigning the averages; without momentum they are the weights.
    losses = []
    for _ in range(3):
        losses.append(model.fit(x, y, verbose=0).history["loss"])
        model.evaluate(x, y, verbose=0)
        assert np.isfinite(model.optimizer.variables[-1]).all()
    assert losses[0] > losses[1] > losses[2]
    model.train_on_batch(x, y)


@pytest.mark.parametrize(
    "program",
    [
        several_inputs_and_outputs,
        fewer_rows_than_replicas,
        made_elsewhere,
        mixed_precision,
        stateful_recurrence,
        own_step,
        own_loss_and_metric,
    ],
    ids=lambda program: program.__name__,
)
def test_training_equals_one_device(program):
    found = []
    for scope in (mirrored(4).scope(), contextlib.nullcontext()):
        keras.utils.set_random_seed(programs.SEED)
        found.append(program(scope))
    assert_same(*found)
