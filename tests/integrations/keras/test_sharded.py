"""Keras models on a strategy that shards its state."""

import contextlib
import math
import pathlib

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import mirrax
from mirrax.integrations.keras.variable_hooks import proxy_of
from mirrax.testing import launch_processes
from tests.integrations.keras.worker_programs import Stops

RNG = np.random.default_rng(0)
ROWS, BATCH = 190, 64  # The last batch is uneven, but gives each of 8 replicas rows.
X = RNG.normal(size=(ROWS, 16)).astype("f")
Y = RNG.integers(0, 4, ROWS)


def build(shard_state, num_replicas=2):
    devices = [f"CPU:{i}" for i in range(num_replicas)]
    strategy = mirrax.MirroredStrategy(devices, shard_state=shard_state)
    return strategy, build_in(strategy)


def build_in(strategy):
    keras.utils.set_random_seed(0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with strategy.scope():
        model = build_layers()
        model.compile(keras.optimizers.AdamW(1e-2, global_clipnorm=0.5), loss)
    return model


def build_layers():
    return keras.Sequential(
        [
            keras.layers.Input((16,)),
            keras.layers.Dense(24, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(4),
        ]
    )


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
    return [shard.data.size for shard in proxy_of(variable).stored.addressable_shards]


@pytest.mark.parametrize(
    "num_replicas", [2, *[pytest.param(n, marks=pytest.mark.slow) for n in (1, 4, 8)]]
)
@pytest.mark.parametrize(
    "train", [fit, pytest.param(train_by_hand, marks=pytest.mark.slow)]
)
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


def test_memory_report_forgets_the_steps_before_compile():
    strategy, model = build(1000)
    for _ in range(2):
        model.fit(X, Y, batch_size=BATCH, epochs=1, verbose=0)
        model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(X, Y, batch_size=BATCH, epochs=1, verbose=0)
    assert len(strategy.memory_report().programs) == 1


def test_seeds_of_random_numbers_are_not_sharded():
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"], shard_state=1)
    with strategy.scope():
        dropout = keras.layers.Dropout(0.5, seed=0)
    assert parts_of(dropout.seed_generator.state) == [2, 2]
    expected = keras.layers.Dropout(0.5, seed=0)(X, training=True)
    np.testing.assert_array_equal(dropout(X, training=True), expected)


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


class OwnCallback(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path
        self.norms = []

    def on_train_batch_end(self, batch, logs=None):
        self.norms.append(float(keras.ops.norm(self.model.layers[0].kernel)))

    def on_epoch_end(self, epoch, logs=None):
        self.model.save(self.path)


def use_on_workers(folder):
    """Runs on the workers: returns what they see of mirrored and sharded models."""
    return [
        use_model(pathlib.Path(folder, name), shard_state)
        for name, shard_state in [("mirrored", False), ("sharded", 1000)]
    ]


def use_model(folder, shard_state):
    strategy = mirrax.MultiWorkerMirroredStrategy(shard_state=shard_state)
    model = build_in(strategy)
    results = {}

    def fit(*callbacks, epochs=2, **options):
        options = {"batch_size": BATCH, "verbose": 0, **options}
        return model.fit(X, Y, epochs=epochs, callbacks=callbacks, **options).history

    callbacks = keras.callbacks
    own = OwnCallback(folder / "own.keras")
    results["history"] = fit(
        own,
        callbacks.ModelCheckpoint(folder / "epoch_{epoch}.keras"),
        callbacks.ModelCheckpoint(
            folder / "batch.weights.h5", save_weights_only=True, save_freq=2
        ),
        callbacks.CSVLogger(folder / "log.csv"),
        callbacks.TensorBoard(folder / "logs", histogram_freq=1),
        validation_data=(X, Y),
    )
    results["trained"] = model.get_weights()
    results["norms"] = own.norms
    results["evaluate"] = model.evaluate(X, Y, batch_size=BATCH, verbose=0)
    results["predict"] = model.predict(X, batch_size=BATCH, verbose=0)
    train_by_hand(strategy, model)
    results["called"] = np.asarray(model(X[:8]))
    model.save(folder / "model.keras")
    results["saved"] = model.get_weights()
    checkpoint = mirrax.train.Checkpoint(model=model)
    checkpoint.write(folder / "checkpoint")
    model.layers[0].kernel.assign(np.zeros((16, 24), "f"))
    checkpoint.read(folder / "checkpoint")
    assert all(map(np.array_equal, model.get_weights(), results["saved"]))
    with pytest.raises(OSError, match="missing"):
        model.save(folder / "missing" / "model.keras")
    backup = callbacks.BackupAndRestore(folder / "backup")
    with contextlib.suppress(KeyboardInterrupt):
        fit(backup, Stops())
    model.set_weights([np.zeros_like(w) for w in model.get_weights()])
    best = callbacks.EarlyStopping("loss", 100.0, restore_best_weights=True)
    results["resumed"] = fit(backup, best, epochs=5)
    results["best"] = model.get_weights()
    kernel = model.layers[0].kernel
    slots = [v for v in model.optimizer.variables if v.shape == kernel.shape]
    results["parts"] = [parts_of(v) for v in [kernel, *slots]]
    return results


@pytest.mark.slow
def test_models_of_workers_are_sharded_equal_mirrored_and_saved_whole(tmp_path):
    first, second = launch_processes(use_on_workers, 2, (str(tmp_path),))
    assert jax.tree.all(jax.tree.map(np.array_equal, first, second))
    mirrored, sharded = first
    assert mirrored.pop("parts") == [[384]] * 3
    assert sharded.pop("parts") == [[192]] * 3
    jax.tree.map(
        lambda one, two: np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-6),
        mirrored,
        sharded,
    )
    # One epoch was done before the backup, and one is the first without progress.
    assert len(sharded["resumed"]["loss"]) == 2
    # In this process, without a strategy.
    for name in ("epoch_2.keras", "own.keras", "model.keras"):
        model = keras.models.load_model(tmp_path / "sharded" / name)
        expected = sharded["saved" if name == "model.keras" else "trained"]
        assert all(map(np.array_equal, model.get_weights(), expected))
    model = build_layers()
    model.load_weights(tmp_path / "sharded" / "batch.weights.h5")
    assert all(map(np.array_equal, model.get_weights(), sharded["trained"]))
