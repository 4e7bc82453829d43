import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from serve import BATCH, PORTS, RATE, WORKER, make_data, serve

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{PORTS[0]}", len(PORTS), WORKER)
mesh = Mesh(np.array(jax.devices()), ("replica",))
whole = NamedSharding(mesh, PartitionSpec())
split = NamedSharding(mesh, PartitionSpec("replica"))
x, y, layers = make_data()
parameters = jax.tree.map(
    lambda a: jax.make_array_from_process_local_data(whole, a), layers
)
batch = jax.tree.map(lambda a: jax.make_array_from_process_local_data(split, a), (x, y))


def loss_of(parameters, x, y):
    for w, b in parameters[:-1]:
        x = jax.nn.relu(x @ w + b)
    logits = x @ parameters[-1][0] + parameters[-1][1]
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1)
    return -picked.sum() / (BATCH * len(PORTS))


@functools.partial(jax.jit, donate_argnums=0)
@functools.partial(
    jax.shard_map,
    mesh=mesh,
    in_specs=(PartitionSpec(), PartitionSpec("replica"), PartitionSpec("replica")),
    out_specs=(PartitionSpec(), PartitionSpec()),
    check_vma=False,
)
def step(parameters, x, y):
    loss, grads = jax.value_and_grad(loss_of)(parameters, x, y)
    grads, loss = jax.lax.psum((grads, loss), "replica")
    return jax.tree.map(lambda p, g: p - RATE * g, parameters, grads), loss


def train(steps):
    global parameters
    for _ in range(steps):
        parameters, loss = step(parameters, *batch)
    return float(loss)


serve(train)
