"""`fit` that resumes on several devices, as Keras' guide to distribution shows."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
checkpoint_dir = os.path.join(tempfile.mkdtemp(), "ckpt")
os.makedirs(checkpoint_dir)


def get_compiled_model():
    inputs = keras.Input(shape=(6,))
    x = keras.layers.Dense(8, activation="tanh", kernel_initializer="ones")(inputs)
    x = keras.layers.Dense(8, activation="sigmoid", kernel_initializer="ones")(x)
    outputs = keras.layers.Dense(4, kernel_initializer="zeros")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate=0.05),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy()],
    )
    return model


def get_dataset():
    batch_size = 16
    x = np.sin(np.arange(80 * 6, dtype=np.float32)).reshape(80, 6)
    y = np.arange(80) % 4
    val = (x[-16:], y[-16:])
    return (
        tf.data.Dataset.from_tensor_slices((x[:-16], y[:-16])).batch(batch_size),
        tf.data.Dataset.from_tensor_slices(val).batch(batch_size),
        tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size),
    )


def make_or_restore_model():
    checkpoints = [checkpoint_dir + "/" + name for name in os.listdir(checkpoint_dir)]
    if checkpoints:
        latest_checkpoint = max(checkpoints, key=os.path.getctime)
        print("Restoring from", os.path.basename(latest_checkpoint))
        return keras.models.load_model(latest_checkpoint)
    print("Creating a new model")
    return get_compiled_model()


def run_training(epochs=1):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model = make_or_restore_model()
        callbacks = [
            keras.callbacks.ModelCheckpoint(
                filepath=checkpoint_dir + "/ckpt-{epoch}.keras", save_freq="epoch"
            )
        ]
        train, val, test = get_dataset()
        history = model.fit(
            train,
            epochs=epochs,
            callbacks=callbacks,
            validation_data=val,
            verbose=0,
        ).history
    for name in ("loss", "val_loss", "sparse_categorical_accuracy"):
        print("losses", *history[name])
    print("losses", *map(float, model.evaluate(test, verbose=0)))


run_training(epochs=2)
run_training(epochs=1)
