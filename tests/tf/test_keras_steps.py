"""Keras models written for TensorFlow; the numbers are TensorFlow's."""

import numpy as np
import pytest

import mirrax
from mirrax import tf

X = np.arange(24, dtype=np.float32).reshape(12, 2) / 10
Y = np.ones((12, 1), np.float32)
# With several replicas, a step's own metric sees losses divided by their number.
CUSTOM_LOSSES = EXTENDED_LOSSES = [3.2447092533111572, 1.2956124544143677]
CUSTOM_RESULT = 0.8855099081993103
UNREDUCED_LOSSES, UNREDUCED_RESULT = [2.5817148685, 0.5622866154], 0.4243827760
VARIABLE_LOSSES = [13.704728126525879, 6.422190189361572]


class Scale(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.factors = [tf.Variable(2.0)]
        self.calls = tf.Variable(0, trainable=False)

    def call(self, x):
        self.calls.assign_add(1)
        return x * self.factors[0]


class Custom(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")
        self.mean = tf.keras.metrics.Mean(name="mean")

    def call(self, x):
        return self.dense(x)

    @property
    def metrics(self):
        return [self.mean]

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.mean.update_state(loss)
        return {"mean": self.mean.result()}

    def test_step(self, data):
        x, y = data
        self.mean.update_state(self.compute_loss(y=y, y_pred=self(x)))
        return {"mean": self.mean.result()}


class Extended(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        return {**super().train_step(data), "more": 1.0}


def strategies():
    return [
        tf.distribute.get_strategy(),
        tf.distribute.MirroredStrategy(["CPU:0"]),
        tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
    ]


def trained(strategy, make, **options):
    with strategy.scope():
        model = make()
        model.compile(tf.keras.optimizers.Adam(0.1), "mse", **options)
    history = model.fit(X, Y, batch_size=4, epochs=2, verbose=0, shuffle=False)
    return model, history.history


@pytest.mark.parametrize("strategy", strategies(), ids=["none", "one", "two"])
def test_train_step_with_a_tape_gives_tensorflows_losses(strategy):
    model, history = trained(strategy, Custom)
    losses = np.multiply(history["mean"], strategy.num_replicas_in_sync)
    np.testing.assert_allclose(losses, CUSTOM_LOSSES, rtol=1e-5)
    result = model.evaluate(X, Y, batch_size=4, verbose=0, return_dict=True)
    loss = result["mean"] * strategy.num_replicas_in_sync
    np.testing.assert_allclose(loss, CUSTOM_RESULT, rtol=1e-5)


def test_model_knows_the_strategy_of_its_scope(strategy):
    with strategy.scope():
        models = [tf.keras.Sequential([tf.keras.layers.Dense(1)]), Custom()]
    assert [model.distribute_strategy for model in models] == [strategy, strategy]
    assert Custom().distribute_strategy is tf.distribute.get_strategy()


def test_loss_without_reduction_trains_with_its_sum(strategy):
    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.Input((2,)), tf.keras.layers.Dense(1, kernel_initializer="ones")]
        )
        loss = tf.keras.losses.MeanSquaredError(reduction="none")
        model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss=loss)
    history = model.fit(X, Y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    np.testing.assert_allclose(history.history["loss"], UNREDUCED_LOSSES, rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(X, Y, verbose=0), UNREDUCED_RESULT, 1e-5)


def test_train_step_is_in_replica_context(strategy):
    contexts = []

    class InContext(Custom):
        def train_step(self, data):
            contexts.append(tf.distribute.get_replica_context().num_replicas_in_sync)
            return super().train_step(data)

    with strategy.scope():
        model = InContext()
        model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
    model.fit(X, Y, batch_size=12, verbose=0)
    assert set(contexts) == {strategy.num_replicas_in_sync}


def test_train_step_extends_that_of_keras():
    _, history = trained(strategies()[2], Extended, steps_per_execution=2)
    np.testing.assert_allclose(history["loss"], EXTENDED_LOSSES, rtol=1e-5)
    assert history["more"] == [1.0, 1.0]


def test_train_step_runs_eagerly():
    _, history = trained(strategies()[0], Custom, run_eagerly=True)
    np.testing.assert_allclose(history["mean"], CUSTOM_LOSSES, rtol=1e-5)


@pytest.mark.parametrize("strategy", strategies(), ids=["none", "one", "two"])
def test_layers_use_variables_of_tensorflow(strategy):
    def make():
        dense = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        return tf.keras.Sequential([tf.keras.Input((2,)), Scale(), dense])

    model, history = trained(strategy, make)
    np.testing.assert_allclose(history["loss"], VARIABLE_LOSSES, rtol=1e-5)
    scale = model.layers[0]
    assert isinstance(scale.calls, mirrax.Variable)
    assert scale.calls.numpy() == 6
    assert len(model.weights) == 1
    predicted = model.predict(X[:4], verbose=0)
    assert predicted.shape == (4, 1)
    assert scale.calls.numpy() == 7


def test_a_model_may_have_steps_and_no_call():
    class Pair(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.first = tf.keras.Sequential([tf.keras.layers.Dense(2)])
            self.second = tf.keras.Sequential([tf.keras.layers.Dense(1)])

        def compile(self, optimizer):
            super().compile()
            self.own = optimizer

        def train_step(self, data):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(self.second(self.first(data)) ** 2)
            weights = self.first.trainable_weights + self.second.trainable_weights
            self.own.apply_gradients(
                zip(tape.gradient(loss, weights), weights, strict=True)
            )
            return {"size": loss}

    model = Pair()
    model.compile(tf.keras.optimizers.SGD(0.05))
    data = tf.data.Dataset.from_tensor_slices(np.ones((8, 3), np.float32)).batch(4)
    first, second = model.fit(data, epochs=2, verbose=0).history["size"]
    assert second < first
