"""A custom training loop on several workers, which resumes where it stopped.

    mirrax launch -n 2 examples/tf/multi_worker_custom_loop.py FOLDER

or, without the launcher, once on each worker with TF_CONFIG in its environment. This is
a TensorFlow program; only the import of `tf` was changed.
"""

import sys

import numpy as np

import mirrax.tf as tf

NUM_EPOCHS = 3
STEPS_PER_EPOCH = 8
PER_REPLICA_BATCH_SIZE = 16


def make_dataset(context):
    """Returns what one worker reads: batches for one replica."""
    random = np.random.RandomState(0)
    x = random.randn(512, 4).astype(np.float32)
    y = x @ np.array([[1.0], [-1.0], [2.0], [0.5]], np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    return dataset.repeat().batch(PER_REPLICA_BATCH_SIZE)


class Model(tf.Module):
    """A linear model, with the number of the next epoch."""

    def __init__(self):
        super().__init__()
        self.weight = tf.Variable(tf.zeros([4, 1]), name="weight")
        self.epoch = tf.Variable(0, trainable=False, name="epoch")

    def __call__(self, inputs):
        return tf.matmul(inputs, self.weight)


def main(folder):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    worker = strategy.cluster_resolver.task_id or 0
    with strategy.scope():
        model = Model()
        checkpoint = tf.train.Checkpoint(weight=model.weight, epoch=model.epoch)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=1)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint)
        print(f"Worker {worker} goes on with epoch {model.epoch.numpy() + 1}")

    def train_step(inputs):
        points, targets = inputs
        count = PER_REPLICA_BATCH_SIZE * strategy.num_replicas_in_sync
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(points) - targets)) / count
        gradient = tape.gradient(loss, model.weight)
        context = tf.distribute.get_replica_context()
        model.weight.assign_sub(0.1 * context.all_reduce("SUM", gradient))
        return loss

    @tf.function
    def distributed_step(inputs):
        losses = strategy.run(train_step, args=(inputs,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    iterator = iter(strategy.distribute_datasets_from_function(make_dataset))
    while model.epoch.numpy() < NUM_EPOCHS:
        losses = [distributed_step(next(iterator)) for _ in range(STEPS_PER_EPOCH)]
        model.epoch.assign_add(1)
        manager.save()
        epoch, loss = model.epoch.numpy(), float(losses[-1])
        print(f"Worker {worker}, epoch {epoch}: loss {loss:.6f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
