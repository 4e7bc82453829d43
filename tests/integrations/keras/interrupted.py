"""A training that keeps a backup, and that may be killed in the middle."""

import json
import os
import pathlib
import signal

import h5py
import keras

import mirrax
from tests.integrations.keras import programs


class IsKilled(keras.callbacks.Callback):
    """Ends the process after some epoch, as a machine does that loses its power."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.epoch:
            os.kill(os.getpid(), signal.SIGKILL)


class IsTerminated(keras.callbacks.Callback):
    """Gets SIGTERM in some batch, of all epochs."""

    def __init__(self, batch):
        super().__init__()
        self.batch = batch
        self.num_batches = 0

    def on_train_batch_begin(self, batch, logs=None):
        self.num_batches += 1
        if self.num_batches == self.batch:
            signal.raise_signal(signal.SIGTERM)


class IsTerminatedAfterBatches(keras.callbacks.Callback):
    """Gets SIGTERM after the batches of some epoch."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.epoch:
            signal.raise_signal(signal.SIGTERM)


def load(folder):
    """Returns the epoch and the number of steps of a backup."""
    epoch = json.loads(pathlib.Path(folder, "training_metadata.json").read_text())
    with h5py.File(pathlib.Path(folder, "latest.weights.h5")) as file:
        iterations = int(file["optimizer/vars/0"][()])
    return {"epoch": epoch["epoch"], "iterations": iterations}


def train(folder, killed_after=None, terminated_after=None, terminated_epoch=None):
    """Returns the losses of the epochs that were left to train, and the weights."""
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model = programs.build("linear", keras.optimizers.Adam())
    x, y = programs.data_for(model, rows=12)
    callbacks = [
        keras.callbacks.BackupAndRestore(folder),
        IsKilled(killed_after),
        IsTerminated(terminated_after),
        IsTerminatedAfterBatches(terminated_epoch),
    ]
    options = {"batch_size": 6, "epochs": 4, "shuffle": False, "verbose": 0}
    history = model.fit(x, y, callbacks=callbacks, **options)
    return history.history.get("loss", []), model.get_weights()
