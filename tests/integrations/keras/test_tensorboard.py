"""The TensorBoard callback writes its files without TensorFlow."""

import keras
import numpy as np
import pytest

import mirrax
from tests.conftest import mirrored


def read_events(folder):
    (path,) = folder.glob("events.out.tfevents.*")
    return b"".join(
        bytes(record)
        for record in mirrax.data.TFRecordDataset(str(path)).as_numpy_iterator()
    )


@pytest.mark.parametrize("update_freq", ["epoch", "batch"])
def test_callback_writes_scalars_histograms_images_and_layers(tmp_path, update_freq):
    with mirrored(2).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.compile("sgd", "mse")
    x, y = np.ones((8, 3), np.float32), np.ones((8, 2), np.float32)
    callback = keras.callbacks.TensorBoard(
        tmp_path,
        histogram_freq=1,
        write_images=True,
        write_steps_per_second=True,
        update_freq=update_freq,
    )
    model.fit(x, y, 4, validation_data=(x, y), callbacks=[callback], verbose=0)
    train = read_events(tmp_path / "train")
    assert b"epoch_loss" in train
    assert b"epoch_learning_rate" in train
    assert b"kernel/histogram" in train
    assert b"kernel/image" in train
    assert b"graph_keras_model" in train
    assert (b"batch_loss" in train) is (update_freq == "batch")
    validation = read_events(tmp_path / "validation")
    assert b"epoch_loss" in validation
    assert b"evaluation_loss_vs_iterations" in validation
