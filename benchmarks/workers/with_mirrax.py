import json
import os

from serve import BATCH, PORTS, RATE, WORKER, make_data, serve

os.environ["TF_CONFIG"] = json.dumps(
    {
        "cluster": {"worker": [f"127.0.0.1:{port}" for port in PORTS]},
        "task": {"type": "worker", "index": WORKER},
    }
)

import jax
import jax.numpy as jnp

import mirrax

strategy = mirrax.MultiWorkerMirroredStrategy()
x, y, layers = make_data()
with strategy.scope():
    variables = [
        (mirrax.Variable(w, name="w"), mirrax.Variable(b, name="b")) for w, b in layers
    ]


def loss_of(x, y):
    for w, b in variables[:-1]:
        x = jax.nn.relu(x @ w + b)
    logits = x @ variables[-1][0] + variables[-1][1]
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1)
    return -picked.sum() / (BATCH * len(PORTS))


flat = [variable for pair in variables for variable in pair]


@mirrax.function
def step(x, y):
    loss, grads = mirrax.value_and_grad(loss_of, flat)(x, y)
    context = mirrax.get_replica_context()
    grads, loss = context.all_reduce("SUM", (grads, loss))
    for variable, grad in zip(flat, grads, strict=True):
        variable.assign_sub(RATE * grad)
    return loss


batch = strategy.experimental_distribute_values_from_function(
    lambda _: (jnp.asarray(x), jnp.asarray(y))
)


def train(steps):
    for _ in range(steps):
        loss = strategy.run(step, args=batch)
    return float(loss)


serve(train)
