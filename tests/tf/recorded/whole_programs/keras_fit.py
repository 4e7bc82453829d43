"""`Model.fit` with callbacks, in the form of TensorFlow's and Keras' guides."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

random = np.random.RandomState(1)
x_train = random.rand(48, 10).astype("float32")
y_train = random.randint(0, 3, 48)

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
print(f"Number of devices: {strategy.num_replicas_in_sync}")
BATCH_SIZE = 8 * strategy.num_replicas_in_sync
folder = tempfile.mkdtemp()


def scale(x, y):
    return tf.cast(x, tf.float32) * 2.0, y


train_dataset = (
    tf.data.Dataset.from_tensor_slices((x_train, y_train))
    .map(scale)
    .cache()
    .batch(BATCH_SIZE)
)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = (
    tf.data.experimental.AutoShardPolicy.DATA
)
train_dataset = train_dataset.with_options(options)


def get_compiled_model():
    inputs = keras.Input(shape=(10,))
    start = keras.initializers.Constant(0.1)
    x = layers.Dense(8, activation="relu", kernel_initializer=start)(inputs)
    x = layers.Dense(8, activation="tanh", kernel_initializer=start)(x)
    outputs = layers.Dense(3, kernel_initializer=start)(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate=0.02),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy()],
    )
    return model


def decay(epoch):
    return 0.02 if epoch < 2 else 0.005


class PrintLR(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        rate = float(self.model.optimizer.learning_rate.numpy())
        print(f"losses {rate}")


with strategy.scope():
    model = get_compiled_model()

checkpoint_prefix = os.path.join(folder, "ckpt_{epoch}.weights.h5")
callbacks = [
    tf.keras.callbacks.TensorBoard(log_dir=os.path.join(folder, "logs")),
    tf.keras.callbacks.ModelCheckpoint(
        filepath=checkpoint_prefix, save_weights_only=True
    ),
    tf.keras.callbacks.LearningRateScheduler(decay),
    PrintLR(),
]
history = model.fit(train_dataset, epochs=4, callbacks=callbacks, verbose=0)
print("losses", *history.history["loss"])
print("files", sorted(os.listdir(folder)))

model.load_weights(os.path.join(folder, "ckpt_2.weights.h5"))
print("losses", *model.evaluate(train_dataset, verbose=0))

path = os.path.join(folder, "model.keras")
model.save(path)
unreplicated_model = tf.keras.models.load_model(path)
print("losses", *unreplicated_model.evaluate(train_dataset, verbose=0))
with strategy.scope():
    replicated_model = tf.keras.models.load_model(path)
print("losses", *replicated_model.evaluate(train_dataset, verbose=0))
print("losses", float(np.sum(replicated_model.predict(train_dataset, verbose=0))))
