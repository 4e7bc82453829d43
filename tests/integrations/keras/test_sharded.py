"""Keras models on a strategy that shards its state."""

import math
import warnings

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import mirrax
from mirrax.integrations.keras.step_memory import CompiledStep, ModelSteps
from mirrax.testing import launch_processes

RNG = np.random.default_rng(0)
ROWS, BATCH = 190, 64  # The last batch is uneven, but gives each of 8 replicas rows.
X = RNG.normal(size=(ROWS, 16)).astype("f")
Y = RNG.integers(0, 4, ROWS)


def build(shard_state, num_replicas=2):
    keras.utils.set_random_seed(0)
    devices = [f"CPU:{i}" for i in range(num_replicas)]
    strategy = mirrax.MirroredStrategy(devices, shard_state=shard_state)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Input((16,)),
                keras.layers.Dense(24, activation="relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dense(4),
            ]
        )
        model.compile(keras.optimizers.AdamW(1e-2, global_clipnorm=0.5), loss)
    return strategy, model


def fit(strategy, model):
    model.fit(X, Y, batch_size=BATCH, epochs=17, verbose=0, shuffle=False)


def train_by_hand(strategy, model):
    loss_fn = keras.losses.SparseCategoricalCrossentropy(True, reduction="none")

    @mirrax.function
    def step(x, y):
        loss = lambda: jnp.sum(loss_fn(y, model(x, training=True))) / BATCH  # noqa: E731
        _, grads = mirrax.value_and_grad(loss, model.trainable_variables)()
        model.optimizer.apply(grads, model.trainable_variables)

    dataset = mirrax.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH).repeat(17)
    for batch in strategy.experimental_distribute_dataset(dataset):
        strategy.run(step, batch)


def parts_of(variable):
    return [shard.data.size for shard in variable.value.addressable_shards]


@pytest.mark.parametrize(
    "num_replicas", [2, *[pytest.param(n, marks=pytest.mark.slow) for n in (1, 4, 8)]]
)
@pytest.mark.parametrize("train", [fit, train_by_hand])
def test_model_and_optimizer_stay_sharded_and_equal_mirrored(train, num_replicas):
    mirrored, sharded = build(False, num_replicas), build(1000, num_replicas)
    train(*mirrored)
    train(*sharded)
    _, model = sharded
    kernel = model.layers[0].kernel
    slots = [v for v in model.optimizer.variables if v.shape == kernel.shape]
    assert [parts_of(v) for v in [kernel, *slots]] == [
        [384 // num_replicas] * num_replicas
    ] * 3
    assert parts_of(model.layers[0].bias) == [24] * num_replicas
    pairs = zip(mirrored[1].get_weights(), model.get_weights(), strict=True)
    for one, other in pairs:
        # The norm of the clipped gradients is a sum of the sums of parts, so the last
        # bits of numbers around 1 differ.
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_memory_report_knows_the_steps_of_fit():
    strategy, model = build(1000)
    model.fit(X, Y, batch_size=BATCH, epochs=1, verbose=0, shuffle=False)
    (program,) = strategy.memory_report().programs
    assert program.name == f"{model.name}.train_step"
    # The first layer's kernel is sharded; other weights are not.
    others = [math.prod(w.shape) for w in model.trainable_weights[1:]]
    assert program.weights == 4 * (16 * 24 // 2 + sum(others))
    # Two moments of each, counters, moving averages, metrics.
    assert program.state > 2 * program.weights
    assert program.temporary > 0
    model.evaluate(X, Y, batch_size=BATCH, verbose=0)
    names = {p.name.split(".")[1] for p in strategy.memory_report().programs}
    assert names == {"train_step", "test_step"}


def test_memory_report_keeps_no_step_of_a_model_alive():
    steps = ModelSteps()
    step = CompiledStep(lambda state, data: None, "model.train_step")
    steps.add("train_step", step)
    assert steps.programs == [step]
    del step
    assert steps.programs == []


def test_saved_weights_are_whole_and_loaded_into_either_kind(tmp_path):
    _, sharded = build(1000)
    sharded.layers[0].kernel.assign(np.arange(384, dtype="f").reshape(16, 24))
    sharded.save_weights(tmp_path / "model.weights.h5")
    for shard_state in (False, 1000):
        _, other = build(shard_state)
        other.load_weights(tmp_path / "model.weights.h5")
        kernel = other.layers[0].kernel
        np.testing.assert_array_equal(kernel, np.arange(384, dtype="f").reshape(16, 24))
        assert parts_of(kernel) == ([192, 192] if shard_state else [384, 384])


def warnings_on_workers():
    """Runs on the workers: creates a model, and returns the warnings."""
    strategy = mirrax.MultiWorkerMirroredStrategy(shard_state=1)
    with warnings.catch_warnings(record=True) as caught, strategy.scope():
        warnings.simplefilter("always")
        keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(24)])
    return [str(warning.message) for warning in caught]


@pytest.mark.slow
def test_several_workers_warn_once_that_models_are_mirrored():
    for (message,) in launch_processes(warnings_on_workers, 2):
        assert "With several workers, Keras models are mirrored" in message
