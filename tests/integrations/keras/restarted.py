"""A Keras training with a backup, whose worker is killed in its first attempt."""

import os
import pathlib
import signal

import keras

import mirrax
from tests.integrations.keras import programs


class IsKilledOnce(keras.callbacks.Callback):
    def __init__(self, mark):
        super().__init__()
        self.mark = mark

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def train(folder, killed_worker):
    """Returns how many epochs were left to train, and the weights."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    folder = pathlib.Path(folder)
    with strategy.scope():
        # It counts updates, not batches.
        optimizer = keras.optimizers.Adam(gradient_accumulation_steps=2)
        model = programs.build("linear", optimizer)
    x, y = programs.data_for(model, rows=12)
    callbacks = [keras.callbacks.BackupAndRestore(folder / "backup")]
    if strategy.topology.worker_index == killed_worker:
        callbacks.append(IsKilledOnce(folder / "mark"))
    options = {"batch_size": 6, "epochs": 4, "shuffle": False, "verbose": 0}
    history = model.fit(x, y, callbacks=callbacks, **options)
    weights = [weight.tolist() for weight in model.get_weights()]
    return len(history.history["loss"]), weights
