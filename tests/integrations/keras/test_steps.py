"""Steps of the user's own, with Keras models, optimizers, losses and metrics."""

import functools

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import mirrax
from mirrax.data import Dataset
from tests.conftest import mirrored
from tests.integrations.keras import programs
from tests.integrations.keras.test_models import assert_same
from tests.programs import engines

BATCH = 8

OPTIMIZERS = {
    "clipped": lambda: keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=0.01),
    "averaged": lambda: keras.optimizers.Adam(
        keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5),
        use_ema=True,
        ema_overwrite_frequency=2,
    ),
    "accumulating": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
}


class Trainer:
    """A model, its optimizer and its metric, and a step as users write it."""

    def __init__(self, strategy, layers, optimizer="clipped", uses_tape=False):
        self.strategy = strategy
        keras.utils.set_random_seed(programs.SEED)
        with strategy.scope():
            self.model = keras.Sequential(layers())
            self.optimizer = OPTIMIZERS[optimizer]()
            self.accuracy = keras.metrics.SparseCategoricalAccuracy()
        self.loss = programs.loss()
        self.gradients = self.with_tape if uses_tape else self.with_function

    def with_function(self, x, y):
        differentiated = mirrax.value_and_grad(
            lambda: self.forward(x, y), self.model.trainable_variables, has_aux=True
        )
        (_, aux), grads = differentiated()
        return aux, grads

    def with_tape(self, x, y):
        with mirrax.GradientTape() as tape:
            scaled, aux = self.forward(x, y)
        return aux, tape.gradient(scaled, self.model.trainable_variables)

    def forward(self, x, y):
        outputs = self.model(x, training=True)
        value = self.loss(y, outputs)
        return self.optimizer.scale_loss(value), (value, outputs)

    def step(self, x, y):
        (value, outputs), grads = self.gradients(x, y)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.accuracy.update_state(y, outputs)
        return value

    def train(self, rows, decorate=mirrax.function):
        x, y = programs.data_for(self.model, rows)
        dataset = Dataset.from_tensor_slices((x, y)).batch(BATCH)
        step = decorate(self.step)
        run = functools.partial(self.strategy.run, step)
        losses = [
            self.strategy.reduce("SUM", run(args=batch), axis=None)
            for batch in self.strategy.experimental_distribute_dataset(dataset)
        ]
        return {
            "losses": [float(value) for value in losses],
            "accuracy": float(self.accuracy.result()),
            "weights": self.model.get_weights(),
            "slots": [np.asarray(v) for v in self.optimizer.variables],
        }


@pytest.mark.parametrize(
    ("optimizer", "uses_tape"),
    [*((name, False) for name in OPTIMIZERS), ("scaled", True)],
)
def test_compiled_step_equals_one_device(optimizer, uses_tape):
    expected = Trainer(mirrored(1), programs.linear, optimizer).train(32)
    found = Trainer(mirrored(4), programs.linear, optimizer, uses_tape).train(32)
    assert_same(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("uses_tape", [False, True], ids=["function", "tape"])
def test_eager_step_equals_compiled_step(uses_tape):
    eager = Trainer(mirrored(2), programs.linear, uses_tape=uses_tape).train(
        2 * BATCH, decorate=lambda fn: fn
    )
    compiled = Trainer(mirrored(2), programs.linear).train(2 * BATCH)
    assert_same(eager, compiled)


@pytest.mark.slow
def test_recurrent_model_equals_one_device():
    expected = Trainer(mirrored(1), programs.lstm).train(16)
    assert_same(Trainer(mirrored(2), programs.lstm).train(16), expected)


@engines
def test_mean_losses_of_unequal_and_empty_parts_are_exact(engine):
    strategy = mirrored(4)
    with strategy.scope():
        weight = mirrax.Variable(2.0)
    x = np.arange(1.0, 23.0, dtype="float32")[:, None]
    loss = keras.losses.MeanSquaredError()

    def step(x):
        def loss_of():
            return loss(jnp.zeros_like(x), weight.value * x)

        return mirrax.value_and_grad(loss_of, [weight])()

    # Parts of 3, 3, 3, 0 rows, then 3, 3, 3, 2, then 1, 1, 0, 0.
    batches = [x[:9], x[9:20], x[20:]]
    step = engine(step)
    for rows, batch in zip(batches, strategy.experimental_distribute_dataset(batches)):
        found = strategy.run(step, args=(batch,))
        value, (grad,) = strategy.reduce("SUM", found, axis=None)
        np.testing.assert_allclose([value, grad], np.mean(4 * rows**2), rtol=1e-5)


def test_last_batch_of_another_size_counts_each_row_once(two_replicas):
    with two_replicas.scope():
        mean = keras.metrics.Mean()
    dataset = Dataset.range(7).batch(4)

    @mirrax.function
    def step(x):
        mean.update_state(x)

    for batch in two_replicas.experimental_distribute_dataset(dataset):
        two_replicas.run(step, args=(batch,))
    assert float(mean.result()) == 3.0
    mean.reset_state()
    assert float(mean.result()) == 0.0


def test_metric_is_local_in_a_replica_and_whole_outside(two_replicas):
    with two_replicas.scope():
        total = keras.metrics.Sum()

    def step():
        number = mirrax.get_replica_context().replica_id_in_sync_group
        total.update_state(jnp.float32(number) + 1)
        return total.result()

    for fn in (step, mirrax.function(step)):
        total.reset_state()
        inside = two_replicas.run(fn)
        assert [float(part) for part in inside.values] == [1.0, 2.0]
        assert float(total.result()) == 3.0


def test_dropout_differs_between_replicas_and_steps(two_replicas):
    with two_replicas.scope():
        dropout = keras.layers.Dropout(0.5, seed=1)

    def step():
        return dropout(jnp.ones(64), training=True)

    for fn in (step, mirrax.function(step)):
        first, second = (two_replicas.run(fn).values for _ in range(2))
        draws = {np.asarray(part).tobytes() for part in (*first, *second)}
        assert len(draws) == 4


def test_eager_and_compiled_replicas_draw_the_same(two_replicas):
    draws = []
    for decorate in (lambda fn: fn, mirrax.function):
        with two_replicas.scope():
            dropout = keras.layers.Dropout(0.5, seed=1)
        fn = decorate(lambda d=dropout: d(jnp.ones(64), training=True))
        draws.append([np.asarray(part) for part in two_replicas.run(fn).values])
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize("decorate", [lambda fn: fn, mirrax.function], ids=["e", "c"])
def test_moving_averages_are_the_mean_of_the_replicas(two_replicas, decorate):
    with two_replicas.scope():
        layer = keras.layers.BatchNormalization(momentum=0.5)
        layer.build((None, 1))
    batches = two_replicas.experimental_distribute_values_from_function(
        lambda context: jnp.full((4, 1), 2.0 * context.replica_id_in_sync_group)
    )
    two_replicas.run(decorate(lambda x: layer(x, training=True)), args=(batches,))
    np.testing.assert_allclose(layer.moving_mean.numpy(), [0.5])


def test_mean_losses_of_replicas_add_up_to_the_mean(two_replicas):
    loss = keras.losses.MeanSquaredError()
    x = np.arange(8, dtype="float32").reshape(8, 1)
    (batch,) = two_replicas.experimental_distribute_dataset(
        Dataset.from_tensor_slices(x).batch(8)
    )
    values = two_replicas.run(lambda x: loss(jnp.zeros_like(x), x), (batch,))
    whole = float(two_replicas.reduce("SUM", values, axis=None))
    assert whole == pytest.approx(float(loss(np.zeros_like(x), x)))


def test_some_variables_can_be_trained_alone(two_replicas):
    with two_replicas.scope():
        model = keras.Sequential(programs.linear())
        optimizer = keras.optimizers.SGD(1.0)
        optimizer.build(model.trainable_variables)
    bias = model.trainable_variables[1]
    before = model.get_weights()

    @mirrax.function
    def step():
        optimizer.apply([jnp.ones(3)], [bias])

    two_replicas.run(step)
    kernel_after, bias_after = model.get_weights()
    np.testing.assert_array_equal(kernel_after, before[0])
    np.testing.assert_array_equal(bias_after, before[1] - 2)


def test_model_built_in_the_first_step_belongs_to_the_strategy(two_replicas):
    with two_replicas.scope():
        model = keras.Sequential([keras.layers.Dense(2)])

    @mirrax.function
    def step(x):
        return model(x)

    two_replicas.run(step, args=(jnp.ones((4, 3)),))
    kernel = model.weights[0].value
    assert kernel.sharding == two_replicas.topology.replicated
    assert not isinstance(kernel, jax.core.Tracer)


@pytest.mark.parametrize("decorate", [lambda step: step, mirrax.function])
@pytest.mark.parametrize("is_built", [True, False], ids=["built", "unbuilt"])
def test_losses_are_scaled_without_a_strategy(decorate, is_built):
    layer = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
    layer.build((None, 1))
    optimizer = OPTIMIZERS["scaled"]()
    if is_built:
        optimizer.build(layer.trainable_variables)

    @decorate
    def step(x):
        with mirrax.GradientTape() as tape:
            scaled = optimizer.scale_loss(jnp.sum(layer(x)))
        gradients = tape.gradient(scaled, layer.trainable_variables)
        optimizer.apply_gradients(zip(gradients, layer.trainable_variables))

    for value in (2.0, jnp.inf, 3.0):
        step(jnp.full((1, 1), value))
    np.testing.assert_allclose(layer.kernel, [[1 - 0.1 * 2 - 0.1 * 3]], 1e-6)


def test_first_trace_does_not_keep_the_scale_of_an_unbuilt_optimizer(two_replicas):
    with two_replicas.scope():
        layer = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
        layer.build((None, 1))
        optimizer = OPTIMIZERS["scaled"]()

    @mirrax.function
    def step(x):
        differentiated = mirrax.value_and_grad(
            lambda: optimizer.scale_loss(jnp.sum(layer(x))), layer.trainable_variables
        )
        _, gradients = differentiated()
        optimizer.apply_gradients(zip(gradients, layer.trainable_variables))

    for value in (2.0, jnp.inf, 4.0):
        two_replicas.run(step, args=(jnp.full((1, 1), value),))
    np.testing.assert_allclose(layer.kernel, [[1 - 0.2 * 2 - 0.2 * 4]], 1e-6)


X = np.arange(12, dtype=np.float32).reshape(4, 3)


def scaled():
    """Returns a linear model, an optimizer whose loss scale grows, and their step."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.set_weights([np.ones((3, 1)), np.zeros(1)])
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), initial_scale=8.0, dynamic_growth_steps=2
    )
    weights = model.trainable_variables

    def step(x):
        def loss():
            return optimizer.scale_loss(mirrax.nn.compute_average_loss(model(x)[:, 0]))

        _, gradients = mirrax.value_and_grad(loss, weights)()
        optimizer.apply(gradients, weights)

    return model, optimizer, step


def require_trained(model, optimizer, num_steps):
    expected = 1 - 0.1 * num_steps * X.mean(axis=0)
    np.testing.assert_allclose(model.get_weights()[0][:, 0], expected, rtol=1e-5)
    assert float(optimizer.dynamic_scale) == 8.0 * 2 ** (num_steps // 2)
    assert int(optimizer.inner_optimizer.iterations) == num_steps


def strategy_of(num_replicas):
    return mirrored(num_replicas) if num_replicas else mirrax.get_strategy()


@pytest.mark.parametrize("num_replicas", [0, 2], ids=["default", "2"])
@pytest.mark.parametrize("is_built", [False, True], ids=["unbuilt", "built"])
@engines
def test_a_loss_scale_grows_without_a_scope(engine, is_built, num_replicas):
    strategy, (model, optimizer, step) = strategy_of(num_replicas), scaled()
    if is_built:
        optimizer.build(model.trainable_variables)
    step = engine(step)
    batches = strategy.experimental_distribute_dataset(
        Dataset.from_tensors(X).repeat(3)
    )
    for batch in batches:
        strategy.run(step, args=(batch,))
    require_trained(model, optimizer, 3)


@pytest.mark.parametrize("num_replicas", [0, 2], ids=["default", "2"])
def test_a_variable_read_before_run_is_the_one_that_run_writes(num_replicas):
    strategy, (model, optimizer, step) = strategy_of(num_replicas), scaled()
    optimizer.build(model.trainable_variables)
    (batch,) = strategy.experimental_distribute_dataset(Dataset.from_tensors(X))

    @mirrax.function
    def train():
        before = optimizer.dynamic_scale + model.trainable_variables[1].value.sum()
        strategy.run(step, args=(batch,))
        strategy.run(step, args=(batch,))
        return before, optimizer.dynamic_scale + 0

    assert [float(scale) for scale in train()] == [8.0, 16.0]
    require_trained(model, optimizer, 2)


def test_a_model_from_outside_trains_on_unequal_parts(two_replicas):
    rows = X[:3]
    weight = keras.Variable(np.ones(3, np.float32))
    optimizer = keras.optimizers.SGD(0.1)

    @mirrax.function
    def step(x):
        def loss():
            return mirrax.nn.compute_average_loss((x @ weight.value) ** 2)

        _, gradients = mirrax.value_and_grad(loss, [weight])()
        optimizer.apply(gradients, [weight])

    batches = two_replicas.experimental_distribute_dataset(
        Dataset.from_tensors(rows).repeat(2)
    )
    for batch in batches:
        two_replicas.run(step, args=(batch,))
    expected = np.ones(3, np.float32)
    for _ in range(2):
        expected -= 0.1 * 2 * (rows.T @ (rows @ expected)) / 3
    np.testing.assert_allclose(weight, expected, rtol=1e-5)
