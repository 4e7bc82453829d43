"""A first custom loop, in the form of TensorFlow's guide to distributed training."""

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
mirrored_strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
global_batch_size = 5 * mirrored_strategy.num_replicas_in_sync

with mirrored_strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((1,)), tf.keras.layers.Dense(1, kernel_initializer="ones")]
    )
    optimizer = tf.keras.optimizers.SGD(learning_rate=0.05)
    model.compile(loss="mse", optimizer="sgd")

data = np.linspace(0, 1, 40, dtype=np.float32).reshape(40, 1)
dataset = tf.data.Dataset.from_tensor_slices((data, data * 3 + 1))
model.fit(dataset.batch(global_batch_size), epochs=2, verbose=0)
print("losses", float(model.evaluate(dataset.batch(global_batch_size), verbose=0)))

dist_dataset = mirrored_strategy.experimental_distribute_dataset(
    dataset.batch(global_batch_size)
)
loss_object = tf.keras.losses.MeanSquaredError(reduction="none")


def train_step(inputs):
    features, labels = inputs
    with tf.GradientTape() as tape:
        predictions = model(features, training=True)
        per_example_loss = loss_object(labels, predictions)
        loss = tf.nn.compute_average_loss(
            per_example_loss, global_batch_size=global_batch_size
        )
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


@tf.function
def distributed_train_step(dist_inputs):
    per_replica_losses = mirrored_strategy.run(train_step, args=(dist_inputs,))
    return mirrored_strategy.reduce(
        tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None
    )


for dist_inputs in dist_dataset:
    print("losses", float(distributed_train_step(dist_inputs)))

iterator = iter(dist_dataset)
for _ in range(3):
    print("losses", float(distributed_train_step(next(iterator))))

try:
    while True:
        distributed_train_step(next(iterator))
except (StopIteration, tf.errors.OutOfRangeError):
    print("losses", float(model.layers[0].kernel.numpy()[0, 0]))


class Counter(tf.Module):
    def __init__(self):
        super().__init__()
        self.count = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

    @tf.function
    def step(self):
        mirrored_strategy.run(lambda: self.count.assign_add(tf.ones([])))
        return self.count.read_value()


with mirrored_strategy.scope():
    counter = Counter()
for _ in range(2):
    print("losses", float(counter.step()))
