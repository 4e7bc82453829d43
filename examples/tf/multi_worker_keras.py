"""Trains a Keras model on several workers with `fit`.

    mirrax launch -n 2 examples/tf/multi_worker_keras.py

or, without the launcher, once on each worker with TF_CONFIG in its environment. This is
a TensorFlow program; only the import of `tf` was changed.
"""

import numpy as np

import mirrax.tf as tf

PER_WORKER_BATCH_SIZE = 32
STEPS_PER_EPOCH = 10


def make_dataset(batch_size):
    """Returns batches of points, labelled by the side of a line."""
    random = np.random.RandomState(0)
    points = random.randn(2000, 10).astype(np.float32)
    sides = (points @ random.randn(10, 1) > 0).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((points, sides))
    return dataset.shuffle(2000, seed=0).repeat().batch(batch_size)


def make_model():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((10,)),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(1),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.SGD(0.1),
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    tf.keras.utils.set_random_seed(1)
    num_workers = strategy.num_replicas_in_sync
    dataset = make_dataset(PER_WORKER_BATCH_SIZE * num_workers)
    with strategy.scope():
        model = make_model()
    history = model.fit(
        dataset, epochs=3, steps_per_epoch=STEPS_PER_EPOCH, verbose=0
    ).history
    losses = [round(float(loss), 4) for loss in history["loss"]]
    worker = strategy.cluster_resolver.task_id or 0
    print(f"Worker {worker} of {num_workers}: losses {losses}", flush=True)


if __name__ == "__main__":
    main()
