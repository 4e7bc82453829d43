"""Saving and loading under several strategies, as TensorFlow's tutorial shows."""

import os
import tempfile

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
mirrored_strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
BATCH_SIZE = 8 * mirrored_strategy.num_replicas_in_sync
FOLDER = tempfile.mkdtemp()

features = np.linspace(0, 1, 32 * 4, dtype=np.float32).reshape(32, 4)
labels = (np.arange(32) % 3).astype(np.int64)


def get_data():
    dataset = tf.data.Dataset.from_tensor_slices((features, labels))
    return dataset.cache().batch(BATCH_SIZE), dataset.batch(BATCH_SIZE)


def get_model():
    with mirrored_strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.Input((4,)),
                tf.keras.layers.Dense(5, "tanh", kernel_initializer="ones"),
                tf.keras.layers.Dense(3, kernel_initializer="zeros"),
            ]
        )
        model.compile(
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            optimizer=tf.keras.optimizers.Adam(0.05),
            metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
        )
        return model


train_dataset, eval_dataset = get_data()
model = get_model()
model.fit(train_dataset, epochs=2, verbose=0)
print("losses", *map(float, model.evaluate(eval_dataset, verbose=0)))

# The high level: saved outside of the scope, loaded outside and inside of scopes.
keras_path = os.path.join(FOLDER, "model.keras")
model.save(keras_path)
restored = tf.keras.models.load_model(keras_path)
history = restored.fit(train_dataset, epochs=2, verbose=0).history
print("losses", *history["loss"])

another_strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
with another_strategy.scope():
    restored = tf.keras.models.load_model(keras_path)
    history = restored.fit(train_dataset, epochs=2, verbose=0).history
print("losses", *history["loss"])

# The low level: a function with signatures, which runs under a strategy.
saved_path = os.path.join(FOLDER, "saved_model")
model.export(saved_path, verbose=False)
loaded = tf.saved_model.load(saved_path)
inference = loaded.signatures[tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
outputs = [inference(batch)["output_0"] for batch, _ in eval_dataset]
print("losses", *(float(tf.reduce_sum(tf.square(part))) for part in outputs))

with mirrored_strategy.scope():
    loaded = tf.saved_model.load(saved_path)
    inference = loaded.signatures["serving_default"]
    predict_dataset = mirrored_strategy.experimental_distribute_dataset(
        eval_dataset.map(lambda image, label: image)
    )
    for batch in predict_dataset:
        result = mirrored_strategy.run(inference, args=(batch,))
        total = mirrored_strategy.reduce(
            "SUM", tf.nest.map_structure(lambda x: x, result)["output_0"], axis=0
        )
        print("losses", *total.numpy().tolist())


class SubclassedModel(tf.keras.Model):
    """A model whose call gives a dictionary."""

    output_name = "output_layer"

    def __init__(self):
        super().__init__()
        self._dense = tf.keras.layers.Dense(
            5, kernel_initializer=tf.keras.initializers.Constant(0.3)
        )

    def call(self, inputs):
        return {self.output_name: self._dense(inputs)}


my_model = SubclassedModel()
subclassed_path = os.path.join(FOLDER, "subclassed")
predict = tf.function(lambda inputs: my_model(inputs, training=False))
signature = predict.get_concrete_function(tf.TensorSpec([None, 4], tf.float32))
tf.saved_model.save(my_model, subclassed_path, signatures=signature)
loaded = tf.saved_model.load(subclassed_path)
served = loaded.signatures["serving_default"](tf.constant(features[:2]))
print("losses", *served["output_layer"].numpy()[:, 0].tolist())
