"""JAX by hand, as an expert writes it; as workers with `psum` or with an exchange."""

import functools

from serve import TEAM, serve, set_jax_devices

set_jax_devices()

import jax
import jax.numpy as jnp
import jax_ops as ops
import models
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

WHOLE, SPLIT = PartitionSpec(), PartitionSpec("replica")

if TEAM.size > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{TEAM.ports[0]}", TEAM.size, TEAM.worker)

MESH = Mesh(np.array(jax.devices()), ("replica",))


def put(spec, array):
    sharding = NamedSharding(MESH, spec)
    return jax.make_array_from_callback(array.shape, sharding, lambda i: array[i])


def psum(values):
    return jax.lax.psum(values, "replica")


def exchange(values):
    """Adds up what the workers send each other: small values in one message."""
    flat, structure = jax.tree.flatten(values)
    small = [value for value in flat if value.nbytes <= 512 * 1024]
    vector = _exchanged(jnp.concatenate([value.ravel() for value in small]))
    pieces = jnp.split(vector, np.cumsum([value.size for value in small])[:-1])
    sums = iter([piece.reshape(v.shape) for piece, v in zip(pieces, small)])
    return structure.unflatten(
        [next(sums) if v.nbytes <= 512 * 1024 else _exchanged(v) for v in flat]
    )


def _exchanged(value):
    copies = jnp.broadcast_to(value, (TEAM.size, *value.shape))
    return functools.reduce(jnp.add, jax.lax.all_to_all(copies, "replica", 0, 0))


all_reduce = exchange if TEAM.variant == "exchange" else psum


def make_train(model, batch):
    state = {k: put(WHOLE, v) for k, v in models.parameters(model).items()}
    data = [put(SPLIT, array) for array in models.batch(model, batch)]

    @functools.partial(jax.jit, donate_argnums=0)
    @functools.partial(
        jax.shard_map,
        mesh=MESH,
        in_specs=(WHOLE, SPLIT, SPLIT),
        out_specs=(WHOLE, WHOLE),
        check_vma=False,
    )
    def step(p, x, y):
        loss_of = functools.partial(ops.loss_of, ops, model)
        loss, grads = jax.value_and_grad(loss_of)(p, x, y)
        grads, loss = all_reduce(jax.tree.map(lambda v: v / MESH.size, (grads, loss)))
        return jax.tree.map(lambda v, g: v - models.RATE * g, p, grads), loss

    def train(repeats):
        nonlocal state
        for _ in range(repeats):
            state, loss = step(state, *data)
        return float(loss)

    return train


def make_variables(count):
    sharding = NamedSharding(MESH, WHOLE)
    state = [jax.device_put(np.float32(i), sharding) for i in range(count)]
    step = jax.jit(
        lambda arrays: [array + 1 for array in arrays],
        donate_argnums=0,
        in_shardings=([sharding] * count,),
        out_shardings=[sharding] * count,
    )

    def run(repeats):
        nonlocal state
        for _ in range(repeats):
            state = step(state)
        return float(jax.block_until_ready(state)[0])

    return run


def make_callback():
    """A step in which each replica asks Python for a number."""
    state = put(WHOLE, np.zeros(4, np.float32))

    @functools.partial(jax.jit, donate_argnums=0)
    @functools.partial(
        jax.shard_map, mesh=MESH, in_specs=WHOLE, out_specs=WHOLE, check_vma=False
    )
    def step(state):
        number = jax.pure_callback(lambda: np.float32(1), ops.NUMBER)
        return state + psum(number)

    def run(repeats):
        nonlocal state
        for _ in range(repeats):
            state = step(state)
        return float(state[0])

    return run


serve(train=make_train, variables=make_variables, callback=make_callback)
