"""A training that keeps a backup, and that may be killed in the middle."""

import os
import signal

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


def train(folder, killed_after=None):
    """Returns the losses of the epochs that were left to train, and the weights."""
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model = programs.build("linear", keras.optimizers.Adam())
    x, y = programs.data_for(model, rows=12)
    callbacks = [keras.callbacks.BackupAndRestore(folder), IsKilled(killed_after)]
    options = {"batch_size": 6, "epochs": 4, "shuffle": False, "verbose": 0}
    history = model.fit(x, y, callbacks=callbacks, **options)
    return history.history["loss"], model.get_weights()
