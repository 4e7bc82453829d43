"""TensorFlow: its `MirroredStrategy`, and `MultiWorkerMirroredStrategy`."""

import functools
import os
import sys
import tempfile

from serve import TEAM, serve

ENVIRONMENT = "tensorflow"
REQUIRES = ["tensorflow-cpu==2.21.0"]

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
if TEAM.size > 1:
    os.environ["TF_CONFIG"] = TEAM.tf_config

import input_pipelines
import models
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * TEAM.replicas,
)
relu, embed = tf.nn.relu, tf.gather
# The operations of `models.py` are the functions of this module.
ops = sys.modules[__name__]


def dense(x, w, b):
    return tf.matmul(x, w) + b


def conv(x, w, stride):
    return tf.nn.conv2d(x, w, stride, [[0, 0], [1, 1], [1, 1], [0, 0]])


def batch_norm(x, scale, shift):
    return tf.compat.v1.nn.fused_batch_norm(x, scale, shift, epsilon=1e-5)[0]


def layer_norm(x, scale, shift):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5) * scale + shift


def split_heads(x):
    rows, length, width = x.shape
    heads = models.NUM_HEADS
    parts = tf.reshape(x, (rows, length, 3, heads, width // 3 // heads))
    return tf.unstack(tf.transpose(parts, (2, 0, 3, 1, 4)))


def attention(q, k, v):
    weights = tf.matmul(q, k, transpose_b=True) / q.shape[-1] ** 0.5
    mask = tf.linalg.band_part(tf.ones(weights.shape[-2:], bool), -1, 0)
    return tf.matmul(tf.nn.softmax(tf.where(mask, weights, float("-inf"))), v)


def merge_heads(x):
    rows, heads, length, width = x.shape
    return tf.reshape(tf.transpose(x, (0, 2, 1, 3)), (rows, length, heads * width))


def mean_pool(x):
    return tf.reduce_mean(x, (1, 2))


@functools.cache
def get_strategy():
    if TEAM.size > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(TEAM.replicas)])


def make_train(model, batch):
    strategy = get_strategy()
    with strategy.scope():
        named = {k: tf.Variable(v) for k, v in models.parameters(model).items()}
    variables = list(named.values())
    count = strategy.num_replicas_in_sync
    rows = batch // count
    arrays = models.batch(model, batch)
    parts = strategy.experimental_distribute_values_from_function(
        lambda c: tuple(
            tf.constant(a[c.replica_id_in_sync_group * rows :][:rows]) for a in arrays
        )
    )

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            logits = models.scores(ops, model, named, x)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
            loss = tf.reduce_mean(each) / count
        grads = tape.gradient(loss, variables)
        # The gradient of `gather` lists rows.
        grads = [tf.convert_to_tensor(grad) for grad in grads]
        grads = tf.distribute.get_replica_context().all_reduce("SUM", grads)
        for variable, grad in zip(variables, grads):
            variable.assign_sub(models.RATE * grad)
        return loss

    @tf.function
    def step(x, y):
        return strategy.reduce("SUM", strategy.run(replica_step, (x, y)), axis=None)

    def train(repeats):
        for _ in range(repeats):
            loss = step(*parts)
        return float(loss)

    return train


def make_eager(all_reduce):
    strategy = get_strategy()
    value = strategy.experimental_distribute_values_from_function(
        lambda context: tf.ones(4)
    )

    def fn(x):
        if all_reduce:
            return tf.distribute.get_replica_context().all_reduce("SUM", x)
        return None

    def run(repeats):
        for _ in range(repeats):
            strategy.run(fn, args=(value,))
        return 0.0

    return run


def make_input(pipeline, folder, rows=20_000):
    parse = input_pipelines.parser(
        tf.io.parse_example, tf.io.FixedLenFeature, tf.float32, tf.int64, tf.string
    )
    strategy = get_strategy()
    return input_pipelines.make(tf.data, parse, strategy, pipeline, folder, rows)


def variables_to_save(count, size):
    with get_strategy().scope():
        variables = [tf.Variable(tf.ones(size)) for _ in range(count)]
    checkpoint = tf.train.Checkpoint(variables=variables)
    return variables, checkpoint, os.path.join(tempfile.mkdtemp(), "ckpt")


def make_checkpoint(count, size):
    _, checkpoint, path = variables_to_save(count, size)

    def run(repeats):
        for _ in range(repeats):
            checkpoint.write(path)
        return 0.0

    return run


def make_restore(count, size):
    variables, checkpoint, path = variables_to_save(count, size)
    checkpoint.write(path)

    def run(repeats):
        for _ in range(repeats):
            checkpoint.read(path)
        return float(variables[-1][-1])

    return run


serve(
    train=make_train,
    eager=make_eager,
    input=make_input,
    checkpoint=make_checkpoint,
    restore=make_restore,
)
