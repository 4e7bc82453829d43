"""A custom training loop on several devices of one machine.

    python examples/tf/custom_training_loop.py [number of CPU devices]

This is a TensorFlow program; only the import of `tf` was changed.
"""

import sys

import numpy as np

import mirrax.tf as tf

NUM_EPOCHS = 3
GLOBAL_BATCH_SIZE = 64


def make_data(num_examples, seed):
    """Returns images of 8 x 8 points with a bar in one of four places, and labels."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 4, num_examples)
    images = random.rand(num_examples, 8, 8, 1)
    for image, label in zip(images, labels):
        image[:, 2 * label : 2 * label + 2] += 0.5
    return images.astype(np.float32), labels.astype(np.int32)


def make_model():
    return tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            tf.keras.layers.Conv2D(8, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(4),
        ]
    )


def main(num_devices):
    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration() for _ in range(num_devices)]
    tf.config.set_logical_device_configuration(cpu, devices)
    tf.keras.utils.set_random_seed(1)

    strategy = tf.distribute.MirroredStrategy()
    print("Number of replicas:", strategy.num_replicas_in_sync)

    train = tf.data.Dataset.from_tensor_slices(make_data(1000, seed=0))
    train = train.shuffle(1000, seed=0).batch(GLOBAL_BATCH_SIZE)
    test = tf.data.Dataset.from_tensor_slices(make_data(200, seed=1))
    test = test.batch(GLOBAL_BATCH_SIZE)
    train = strategy.experimental_distribute_dataset(train)
    test = strategy.experimental_distribute_dataset(test)

    with strategy.scope():
        model = make_model()
        optimizer = tf.keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)
        loss_object = tf.keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="none"
        )
        test_hits = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )

    def train_step(inputs):
        images, labels = inputs
        with tf.GradientTape() as tape:
            losses = loss_object(labels, model(images, training=True))
            loss = tf.nn.compute_average_loss(losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    def test_step(inputs):
        images, labels = inputs
        guesses = tf.argmax(model(images, training=False), axis=1)
        hits = tf.equal(tf.cast(guesses, tf.int32), labels)
        test_hits.assign_add(tf.reduce_sum(tf.cast(hits, tf.float32)))

    @tf.function
    def distributed_train_step(inputs):
        losses = strategy.run(train_step, args=(inputs,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    @tf.function
    def distributed_test_step(inputs):
        strategy.run(test_step, args=(inputs,))

    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    for epoch in range(NUM_EPOCHS):
        total, num_batches = 0.0, 0
        for inputs in train:
            total += float(distributed_train_step(inputs))
            num_batches += 1
        test_hits.assign(0.0)
        for inputs in test:
            distributed_test_step(inputs)
        accuracy = float(test_hits.numpy()) / 200
        loss = total / num_batches
        print(f"Epoch {epoch + 1}: loss {loss:.4f}, test accuracy {accuracy:.3f}")
    return checkpoint, accuracy


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 2)
