"""`fit` and a loop on several workers, as programs for Keras 2 are written.

Takes `--folder`, which all workers see.
"""

import argparse
import os

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.layers.experimental import preprocessing

BATCH_SIZE_PER_REPLICA = 8


def make_dataset(batch_size):
    x = (np.arange(64 * 5) * 37 % 256).astype(np.float32).reshape(64, 5)
    dataset = tf.data.Dataset.from_tensor_slices((x, np.arange(64) % 4))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    return dataset.batch(batch_size).repeat().with_options(options)


def build_model():
    model = tf.keras.Sequential()
    model.add(preprocessing.Rescaling(1 / 255, input_shape=(5,)))
    model.add(layers.Dense(6, activation="tanh", kernel_initializer="ones"))
    model.add(layers.Dense(4, kernel_initializer="zeros"))
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.legacy.Adam(learning_rate=0.1),
        metrics=["accuracy"],
    )
    return model


def main(folder):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = make_dataset(BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync)
    with strategy.scope():
        model = build_model()
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy()

    class PrintRate(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            print("losses", float(model.optimizer.lr.numpy()), flush=True)

    checkpoint_dir = os.path.join(folder, "checkpoints")
    callbacks = [
        tf.keras.callbacks.ModelCheckpoint(
            filepath=os.path.join(checkpoint_dir, "ckpt_{epoch}"),
            save_weights_only=True,
        ),
        tf.keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
        tf.keras.callbacks.experimental.BackupAndRestore(
            os.path.join(folder, "backup")
        ),
        PrintRate(),
    ]
    history = model.fit(
        dataset, epochs=2, steps_per_epoch=4, callbacks=callbacks, verbose=0
    ).history
    print("losses", *history["loss"], *history["accuracy"], flush=True)

    index = strategy.cluster_resolver.task_id
    path = os.path.join(folder, "model")
    if index:
        path = os.path.join(path, f"worker_tmp_{index}")
    model.save(path)
    if not index:
        loaded = tf.keras.models.load_model(path)
        print("losses", *loaded.evaluate(dataset, steps=4, verbose=0), flush=True)

    latest = tf.train.latest_checkpoint(checkpoint_dir)
    assert os.path.basename(latest) == "ckpt_2", latest
    model.load_weights(latest)
    model.optimizer.lr = 0.01

    @tf.function
    def step(inputs):
        def replica_step(inputs):
            x, y = inputs
            with tf.GradientTape() as tape:
                logits = model(x, training=True)
                loss = tf.nn.compute_average_loss(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
                )
            gradients = tape.gradient(loss, model.trainable_variables)
            model.optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            accuracy.update_state(y, logits)
            return loss

        losses = strategy.run(replica_step, args=(inputs,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    batches = iter(strategy.experimental_distribute_dataset(dataset))
    for _ in range(2):
        losses = [float(step(next(batches))) for _ in range(3)]
        print("losses", *losses, float(accuracy.result()), flush=True)
        accuracy.reset_states()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    main(parser.parse_args().folder)
