"""A custom loop on several workers, as TensorFlow's multi-worker tutorial shows.

Takes `--folder`, which all workers see.
"""

import os
import sys

import numpy as np
import tensorflow as tf

per_worker_batch_size = 4
num_epochs = 2
num_steps_per_epoch = 4
checkpoint_dir = os.path.join(sys.argv[2], "ckpt")


def dataset_fn(global_batch_size, input_context):
    x = np.sin(np.arange(64 * 3, dtype=np.float32)).reshape(64, 3)
    dataset = tf.data.Dataset.from_tensor_slices((x, np.arange(64) % 2))
    dataset = dataset.shard(
        input_context.num_input_pipelines, input_context.input_pipeline_id
    )
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    return dataset.repeat().batch(batch_size)


def build_model():
    regularizer = tf.keras.regularizers.L2(1e-2)
    return tf.keras.Sequential(
        [
            tf.keras.Input(shape=(3,)),
            tf.keras.layers.Reshape(target_shape=(3, 1)),
            tf.keras.layers.Conv1D(4, 2, activation="tanh", kernel_initializer="ones"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(
                2, kernel_initializer="zeros", kernel_regularizer=regularizer
            ),
        ]
    )


def _is_chief(task_type, task_id, cluster_spec):
    return (
        task_type is None
        or task_type == "chief"
        or (task_type == "worker" and task_id == 0 and "chief" not in cluster_spec)
    )


def write_filepath(filepath, task_type, task_id, cluster_spec):
    dirpath = os.path.dirname(filepath)
    base = os.path.basename(filepath)
    if not _is_chief(task_type, task_id, cluster_spec):
        dirpath = os.path.join(dirpath, "workertemp_" + str(task_id))
        tf.io.gfile.makedirs(dirpath)
    return os.path.join(dirpath, base)


strategy = tf.distribute.MultiWorkerMirroredStrategy(
    communication_options=tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CollectiveCommunication.AUTO
    )
)
global_batch_size = per_worker_batch_size * strategy.num_replicas_in_sync

with strategy.scope():
    multi_worker_model = build_model()
    multi_worker_dataset = strategy.distribute_datasets_from_function(
        lambda input_context: dataset_fn(global_batch_size, input_context)
    )
    optimizer = tf.keras.optimizers.RMSprop(learning_rate=0.01)
    train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")


@tf.function
def train_step(iterator):
    """Trains one step, with the batch that comes next."""

    def step_fn(inputs):
        x, y = inputs
        with tf.GradientTape() as tape:
            predictions = multi_worker_model(x, training=True)
            per_example_loss = tf.keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction=tf.keras.losses.Reduction.NONE
            )(y, predictions)
            loss = tf.nn.compute_average_loss(per_example_loss)
            model_losses = multi_worker_model.losses
            if model_losses:
                loss += tf.nn.scale_regularization_loss(tf.add_n(model_losses))
        grads = tape.gradient(loss, multi_worker_model.trainable_variables)
        optimizer.apply_gradients(zip(grads, multi_worker_model.trainable_variables))
        train_accuracy.update_state(y, predictions)
        return loss

    per_replica_losses = strategy.run(step_fn, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.int64), name="epoch")
step_in_epoch = tf.Variable(tf.constant(0, dtype=tf.int64), name="step_in_epoch")
task_type, task_id, cluster_spec = (
    strategy.cluster_resolver.task_type,
    strategy.cluster_resolver.task_id,
    strategy.cluster_resolver.cluster_spec().as_dict(),
)
checkpoint = tf.train.Checkpoint(
    model=multi_worker_model, epoch=epoch, step_in_epoch=step_in_epoch
)
write_checkpoint_dir = write_filepath(checkpoint_dir, task_type, task_id, cluster_spec)
checkpoint_manager = tf.train.CheckpointManager(
    checkpoint, directory=write_checkpoint_dir, max_to_keep=1
)
latest_checkpoint = tf.train.latest_checkpoint(checkpoint_dir)
if latest_checkpoint:
    checkpoint.restore(latest_checkpoint)

while epoch.numpy() < num_epochs:
    iterator = iter(multi_worker_dataset)
    total_loss = 0.0
    num_batches = 0
    while step_in_epoch.numpy() < num_steps_per_epoch:
        total_loss += train_step(iterator)
        num_batches += 1
        step_in_epoch.assign_add(1)
    train_loss = total_loss / num_batches
    print("losses", float(train_loss), float(train_accuracy.result()), flush=True)
    train_accuracy.reset_state()
    checkpoint_manager.save()
    if not _is_chief(task_type, task_id, cluster_spec):
        tf.io.gfile.rmtree(write_checkpoint_dir)
    epoch.assign_add(1)
    step_in_epoch.assign(0)

weight = multi_worker_model.trainable_variables[0]
print("losses", *np.ravel(weight.numpy()).tolist(), flush=True)
