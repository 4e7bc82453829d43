import json
import os

from serve import BATCH, PORTS, RATE, WORKER, make_data, serve

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_CONFIG"] = json.dumps(
    {
        "cluster": {"worker": [f"127.0.0.1:{port}" for port in PORTS]},
        "task": {"type": "worker", "index": WORKER},
    }
)

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
x, y, layers = make_data()
x, y = tf.constant(x), tf.constant(y)
with strategy.scope():
    variables = [(tf.Variable(w), tf.Variable(b)) for w, b in layers]
flat = [variable for pair in variables for variable in pair]


def replica_step(x, y):
    with tf.GradientTape() as tape:
        h = x
        for w, b in variables[:-1]:
            h = tf.nn.relu(h @ w + b)
        logits = h @ variables[-1][0] + variables[-1][1]
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
        loss = tf.reduce_sum(each) / (BATCH * len(PORTS))
    grads = tape.gradient(loss, flat)
    context = tf.distribute.get_replica_context()
    grads = context.all_reduce("SUM", grads)
    for variable, grad in zip(flat, grads):
        variable.assign_sub(RATE * grad)
    return loss


@tf.function
def step():
    return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)


def train(steps):
    for _ in range(steps):
        loss = step()
    return float(loss)


serve(train)
