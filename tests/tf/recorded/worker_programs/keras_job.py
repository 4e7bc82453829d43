"""`fit` on several workers, in the form of the examples of kubeflow and Vertex AI.

Takes `--folder`, which all workers see. Each worker writes its model; only the chief's
is kept.
"""

import argparse
import json
import os

import numpy as np
import tensorflow as tf

PER_WORKER_BATCH_SIZE = 8


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--epochs", type=int, default=2)
    return parser.parse_args()


def make_datasets_unbatched():
    def scale(image, label):
        return tf.cast(image, tf.float32) / 255.0, label

    images = (np.arange(64 * 16) * 37 % 256).astype(np.uint8).reshape(64, 4, 4, 1)
    dataset = tf.data.Dataset.from_tensor_slices((images, np.arange(64) % 5))
    return dataset.map(scale).cache()


def build_and_compile_cnn_model():
    model = tf.keras.Sequential()
    model.add(tf.keras.Input((4, 4, 1)))
    model.add(
        tf.keras.layers.Conv2D(4, (3, 3), activation="tanh", kernel_initializer="ones")
    )
    model.add(tf.keras.layers.MaxPooling2D((2, 2)))
    model.add(tf.keras.layers.Flatten())
    model.add(tf.keras.layers.Dense(5, kernel_initializer="zeros"))
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.1),
        metrics=["accuracy"],
    )
    return model


def _is_chief(task_type, task_id):
    return task_type is None or task_type == "chief" or task_id == 0


def main(args):
    tf_config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    num_workers = len(tf_config.get("cluster", {}).get("worker", [])) or 1
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == num_workers
    batch_size = PER_WORKER_BATCH_SIZE * 2
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    dataset = make_datasets_unbatched().batch(batch_size).with_options(options)

    with strategy.scope():
        multi_worker_model = build_and_compile_cnn_model()
    print("Number of devices:", strategy.num_replicas_in_sync)
    callbacks = [
        tf.keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
        tf.keras.callbacks.BackupAndRestore(os.path.join(args.folder, "backup")),
    ]
    history = multi_worker_model.fit(
        dataset, epochs=args.epochs, callbacks=callbacks, verbose=0
    ).history
    print("losses", *history["loss"], flush=True)
    print("losses", *history["accuracy"], flush=True)

    task_type, task_id = (
        strategy.cluster_resolver.task_type,
        strategy.cluster_resolver.task_id,
    )
    folder = args.folder
    if not _is_chief(task_type, task_id):
        folder = os.path.join(folder, f"workertemp_{task_id}")
        tf.io.gfile.makedirs(folder)
    path = os.path.join(folder, "model.keras")
    multi_worker_model.save(path)
    if not _is_chief(task_type, task_id):
        tf.io.gfile.rmtree(folder)
        return
    loaded = tf.keras.models.load_model(path)
    print("losses", float(loaded.evaluate(dataset, verbose=0)[0]), flush=True)


if __name__ == "__main__":
    main(get_args())
