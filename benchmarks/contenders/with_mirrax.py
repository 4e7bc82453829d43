"""Mirrax: `MirroredStrategy` in one process, `MultiWorkerMirroredStrategy` in more."""

import functools
import os
import tempfile
import time

from serve import TEAM, serve

if TEAM.size > 1:
    os.environ["TF_CONFIG"] = TEAM.tf_config

import input_pipelines
import jax
import jax.numpy as jnp
import jax_ops as ops
import models
import numpy as np

import mirrax

if TEAM.size == 1:
    mirrax.config.set_logical_devices("CPU", TEAM.replicas)


@functools.cache
def get_strategy():
    if TEAM.size > 1:
        return mirrax.MultiWorkerMirroredStrategy()
    return mirrax.MirroredStrategy([f"CPU:{i}" for i in range(TEAM.replicas)])


def distributed(strategy, arrays):
    """Returns a batch, divided among the replicas."""
    dataset = mirrax.data.Dataset.from_tensor_slices(arrays).batch(len(arrays[0]))
    return next(iter(strategy.experimental_distribute_dataset(dataset)))


def make_train(model, batch, rows=None):
    strategy = get_strategy()
    with strategy.scope():
        named = {k: mirrax.Variable(v) for k, v in models.parameters(model).items()}
    variables = list(named.values())
    count = strategy.num_replicas_in_sync

    @mirrax.function
    def step(x, y):
        def loss_fn():
            values = {name: variable.value for name, variable in named.items()}
            return ops.loss_of(ops, model, values, x, y) / count

        loss, grads = mirrax.value_and_grad(loss_fn, variables)()
        context = mirrax.get_replica_context()
        grads, loss = context.all_reduce("SUM", (grads, loss))
        for variable, grad in zip(variables, grads, strict=True):
            variable.assign_sub(models.RATE * grad)
        return loss

    # Fewer rows than the batch: the last replica gets a smaller part.
    arrays = models.batch(model, batch)
    data = distributed(strategy, tuple(a[:rows] for a in arrays))

    def train(repeats):
        for _ in range(repeats):
            loss = strategy.run(step, args=data)
        return float(loss)

    return train


def make_state(model, batch):
    """The functional style: nested state goes in and comes out."""
    strategy = get_strategy()
    state = models.parameters(model)
    count = strategy.num_replicas_in_sync

    @mirrax.function(donate_argnums=0)
    def step(p, data):
        def loss_fn(p):
            return ops.loss_of(ops, model, p, *data) / count

        result = jax.value_and_grad(loss_fn)(p)
        loss, grads = mirrax.get_replica_context().all_reduce("SUM", result)
        return jax.tree.map(lambda v, g: v - models.RATE * g, p, grads), loss

    data = distributed(strategy, models.batch(model, batch))

    def train(repeats):
        nonlocal state
        for _ in range(repeats):
            state, loss = strategy.run(step, args=(state, data))
        return float(loss)

    return train


def make_variables(count):
    strategy = get_strategy()
    with strategy.scope():
        variables = [mirrax.Variable(np.float32(i)) for i in range(count)]

    @mirrax.function
    def step():
        for variable in variables:
            variable.assign_add(1.0)

    def run(repeats):
        for _ in range(repeats):
            strategy.run(step)
        return float(variables[0].numpy())

    return run


def make_callback():
    """A step in which each replica asks Python for a number."""
    strategy = get_strategy()
    with strategy.scope():
        variable = mirrax.Variable(np.zeros(4, np.float32))

    @mirrax.function
    def step():
        number = jax.pure_callback(lambda: np.float32(1), ops.NUMBER)
        variable.assign_add(
            jnp.ones(4) * mirrax.get_replica_context().all_reduce("SUM", number)
        )

    def run(repeats):
        for _ in range(repeats):
            strategy.run(step)
        return float(variable.numpy()[0])

    return run


def make_eager(all_reduce):
    strategy = get_strategy()
    value = strategy.experimental_distribute_values_from_function(
        lambda context: jnp.ones(4)
    )

    def fn(x):
        if all_reduce:
            return mirrax.get_replica_context().all_reduce("SUM", x)
        return None

    def run(repeats):
        for _ in range(repeats):
            result = strategy.run(fn, args=(value,))
        jax.block_until_ready(strategy.experimental_local_results(result))
        return 0.0

    return run


def make_input(pipeline, folder, rows=20_000):
    data = mirrax.data
    parse = input_pipelines.parser(
        data.parse_example, data.FixedLenFeature, np.float32, np.int64, bytes
    )
    strategy = get_strategy()
    return input_pipelines.make(data, parse, strategy, pipeline, folder, rows)


def make_checkpoint(count, size, asynchronous=False):
    """Returns how long a save blocks the program, the steps around it not counted."""
    strategy = get_strategy()
    with strategy.scope():
        variables = [mirrax.Variable(jnp.ones(size)) for _ in range(count)]
    checkpoint = mirrax.train.Checkpoint(variables=variables)
    path = os.path.join(tempfile.mkdtemp(), "ckpt")

    def run(repeats):
        seconds = 0.0
        for _ in range(repeats):
            for variable in variables:
                variable.assign_add(jnp.ones(size))
            # Otherwise the save would wait for the additions.
            jax.block_until_ready([variable.value for variable in variables])
            start = time.perf_counter()
            checkpoint.write(path, asynchronous=asynchronous)
            seconds += time.perf_counter() - start
            checkpoint.wait()
        return seconds, 0.0

    return run


def make_restore(count, size):
    """Reads a checkpoint into variables on all replicas."""
    strategy = get_strategy()
    with strategy.scope():
        variables = [mirrax.Variable(jnp.ones(size)) for _ in range(count)]
    checkpoint = mirrax.train.Checkpoint(variables=variables)
    path = checkpoint.write(os.path.join(tempfile.mkdtemp(), "ckpt"))

    def run(repeats):
        for _ in range(repeats):
            checkpoint.read(path)
        jax.block_until_ready([variable.value for variable in variables])
        return float(variables[-1].numpy()[-1])

    return run


def make_while(compiled):
    """A `while` of 1,000 small steps on a tensor: AutoGraph against Python."""
    # Not at the top: the start-up of other programs is measured.
    from mirrax import tf

    def add_up(n):
        total = 0.0
        while n > 0:
            if n % 2 == 0:
                total += 1.0
            else:
                total *= 0.5
            n -= 1
        return total

    function = tf.function(add_up) if compiled else add_up
    steps = tf.constant(1000)

    def run(repeats):
        for _ in range(repeats):
            value = function(steps)
        return float(value)

    return run


serve(
    train=make_train,
    state=make_state,
    variables=make_variables,
    callback=make_callback,
    eager=make_eager,
    input=make_input,
    checkpoint=make_checkpoint,
    restore=make_restore,
    loop=make_while,
)
