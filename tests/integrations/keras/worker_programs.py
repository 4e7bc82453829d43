"""What the workers of the tests do with Keras; each runs in a fresh interpreter."""

import contextlib
import io
import pathlib

import keras
import numpy as np

import mirrax
from mirrax.data import Dataset
from tests.integrations.keras import programs


class Stops(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        raise KeyboardInterrupt


def resume(model, folder):
    """Returns how many epochs are left for a training that was interrupted."""
    x, y = programs.data_for(model, rows=8)
    backup = keras.callbacks.BackupAndRestore(folder / "interrupted")
    with contextlib.suppress(KeyboardInterrupt):
        model.fit(x, y, epochs=3, verbose=0, callbacks=[backup, Stops()])
    model.set_weights([np.zeros_like(w) for w in model.get_weights()])
    history = model.fit(x, y, epochs=3, verbose=0, callbacks=[backup])
    return len(history.history["loss"])


def epochs_until_stop(model, moment, number):
    """Returns how many epochs `fit` runs if this worker stops in the first, or not.

    Args:
        number: Of the epoch or batch in which it stops; None if it does not.
    """
    x, y = programs.data_for(model, rows=8)

    def stop(current, logs=None):
        if current == number:
            model.stop_training = True

    callbacks = [keras.callbacks.LambdaCallback(**{moment: stop})]
    history = model.fit(x, y, 4, epochs=3, verbose=0, callbacks=callbacks)
    return len(history.history["loss"])


def equal_one_device():
    """Returns what training and using a model of each kind shows."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    results = {}
    for name, optimizer in programs.OPTIMIZERS.items():
        with strategy.scope():
            model = programs.build(name, optimizer())
        results[name] = programs.experience(model)
    with strategy.scope():
        model = programs.build("linear", "sgd")
    results["batches"] = programs.experience_of_batches(model)
    return results


def train(folder):
    """Trains in every way, on global data and on a share of it."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    worker = strategy.topology.worker_index
    keras.utils.set_random_seed(worker)
    with strategy.scope():
        model = keras.Sequential(programs.linear())
        model.compile("sgd", programs.loss())
    x, y = programs.data_for(model)
    dataset = Dataset.from_tensor_slices((x[:20], y[:20])).batch(8)
    folder = pathlib.Path(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        model.fit(
            dataset,
            epochs=2,
            verbose=2,
            callbacks=[
                keras.callbacks.CSVLogger(folder / "log.csv"),
                keras.callbacks.BackupAndRestore(folder / "backup"),
                keras.callbacks.ModelCheckpoint(
                    folder / f"of_{worker}" / "best.keras", "loss", save_best_only=True
                ),
            ],
        )
        model.save(folder / f"model_of_{worker}.keras")
    results = {
        "weights": model.get_weights(),
        # The first worker's files are there, whoever looks.
        "best": keras.models.load_model(folder / "of_0" / "best.keras").get_weights(),
        "saved": keras.models.load_model(folder / "model_of_0.keras").get_weights(),
        "evaluate": model.evaluate(x, y, batch_size=19, verbose=0),
        "printed": printed.getvalue(),
    }
    # Shuffled by each worker on its own, after the same first batches.
    orders = [0, 8, *np.random.default_rng(worker).permutation(range(16, 88, 8))]
    try:
        model.fit(((x[i : i + 8], y[i : i + 8]) for i in orders), verbose=0)
    except ValueError as error:
        results["other later batches"] = str(error)
    results["epochs until one stops"] = [
        epochs_until_stop(model, "on_epoch_begin", 0 if worker == 1 else None),
        epochs_until_stop(model, "on_epoch_end", 0 if worker == 1 else None),
        epochs_until_stop(model, "on_train_batch_end", 1 if worker == 1 else None),
        epochs_until_stop(model, "on_train_batch_end", 0),
    ]
    results["epochs left"] = resume(model, folder)
    results["resumed"] = model.get_weights()
    try:
        model.train_on_batch(x[:4] + worker, y[:4])
    except ValueError as error:
        results["other batches"] = str(error)
    try:
        model.save(folder / "missing" / "model.keras")
    except OSError as error:
        results["failed save"] = str(error)
    return results


def save_and_load(folder):
    """Trains with callbacks, and with what was saved in every way."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    folder = pathlib.Path(folder)
    keras.utils.set_random_seed(strategy.topology.worker_index)
    results = {}

    def build(**options):
        with strategy.scope():
            model = keras.Sequential(programs.linear())
            model.compile(keras.optimizers.Adam(0.1, **options), programs.loss())
        return model

    def load(name):
        with strategy.scope():
            return keras.models.load_model(folder / name)

    def train(model, *callbacks, epochs=1):
        x, y = programs.data_for(model, rows=8)
        history = model.fit(x, y, epochs=epochs, verbose=0, callbacks=[*callbacks])
        return history.history

    def note(name, model, saved):
        same = map(np.array_equal, model.get_weights(), saved.get_weights())
        train(saved)
        results[name] = all(same), saved.get_weights()

    class Saves(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.save(folder / "own.keras")

    callbacks = keras.callbacks
    model = build()
    train(
        model,
        callbacks.ModelCheckpoint(folder / "whole.keras"),
        callbacks.ModelCheckpoint(folder / "only.weights.h5", save_weights_only=True),
        callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2),
    )
    note("checkpoint", model, load("whole.keras"))
    restored = build()
    restored.load_weights(folder / "only.weights.h5")
    note("checkpoint of weights", model, restored)
    train(model, Saves())
    results["exists"] = (folder / "own.keras").exists()
    note("own callback", model, load("own.keras"))
    keras.saving.save_model(model, folder / "function.keras")
    keras.models.save_model(model, folder / "function.keras")
    note("function", model, load("function.keras"))
    keras.saving.save_weights(model, folder / "function.weights.h5")
    keras.saving.load_weights(model, folder / "function.weights.h5")
    with strategy.scope():
        cloned = keras.models.clone_model(model)
        cloned.compile("adam", programs.loss())
    cloned.set_weights(model.get_weights())
    note("clone", model, cloned)
    model.save(folder / "model.h5")
    loaded = load("model.h5")
    loaded.compile("sgd", programs.loss())
    note("HDF5", model, loaded)
    if strategy.topology.worker_index == 0:
        # Which makes names and variables of its own.
        alone = keras.models.load_model(folder / "own.keras")
        train(alone)
        alone.save(folder / "alone.keras")
    model = build(use_ema=True)
    history = train(
        model,
        callbacks.EarlyStopping("loss", 100.0, restore_best_weights=True),
        callbacks.ReduceLROnPlateau("loss", 0.5, 0, min_delta=100.0),
        callbacks.SwapEMAWeights(swap_on_epoch=True),
        callbacks.TerminateOnNaN(),
        epochs=4,
    )
    return {**results, "history": history, "early": model.get_weights()}


def custom_loop():
    """Trains with a step of the user's, compiled, then eager; counts with a metric."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    with strategy.scope():
        keras.utils.set_random_seed(programs.SEED)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
        optimizer = keras.optimizers.Adam(0.1)
        accuracy = keras.metrics.SparseCategoricalAccuracy()
    x, y = programs.data_for(model, rows=16)
    dataset = strategy.experimental_distribute_dataset(
        Dataset.from_tensor_slices((x, y)).batch(8)
    )
    losses = programs.loss(reduction="none")

    def step(x, y):
        def loss_of():
            outputs = model(x, training=True)
            return losses(y, outputs).sum() / 8, outputs

        gradients = mirrax.value_and_grad(loss_of, model.trainable_variables, True)
        (value, outputs), grads = gradients()
        optimizer.apply(grads, model.trainable_variables)
        accuracy.update_state(y, outputs)
        return value

    values = [
        float(strategy.reduce("SUM", strategy.run(fn, args=batch), axis=None))
        for fn in (mirrax.function(step), step)
        for batch in dataset
    ]
    return {
        "losses": values,
        "accuracy": float(accuracy.result()),
        "weights": model.get_weights(),
        "iterations": int(np.asarray(optimizer.iterations.value)),
    }
