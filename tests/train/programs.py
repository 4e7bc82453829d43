"""What the workers of the tests do; each function runs in fresh interpreters."""

import pathlib
import resource
import shutil

import jax.numpy as jnp
import numpy as np

import mirrax


def build():
    strategy = mirrax.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = mirrax.Variable([1.0, 2.0])
        count = mirrax.Variable(
            0,
            synchronization=mirrax.VariableSynchronization.ON_READ,
            aggregation=mirrax.VariableAggregation.SUM,
        )
    data = mirrax.data.Dataset.range(48).batch(4)
    iterator = iter(strategy.experimental_distribute_dataset(data))
    checkpoint = mirrax.train.Checkpoint(
        weight=weight, count=count, data=iterator, step=0
    )
    return strategy, checkpoint


def next_rows(strategy, iterator):
    """Returns the numbers that all replicas of all workers get next."""
    rows = strategy.gather(next(iterator), axis=0)
    return sorted(np.asarray(rows).tolist())


def save(directory):
    strategy, checkpoint = build()

    @mirrax.function
    def step(rows):
        checkpoint.weight.assign_add(jnp.ones(2))
        checkpoint.count.assign_add(jnp.int32(rows.shape[0]))

    for _ in range(3):
        strategy.run(step, (next(checkpoint.data),))
    checkpoint.step = 3
    manager = mirrax.train.CheckpointManager(checkpoint, directory)
    path = manager.save(3)
    return path, next_rows(strategy, checkpoint.data)


def restore(directory):
    strategy, checkpoint = build()
    manager = mirrax.train.CheckpointManager(checkpoint, directory)
    path = manager.restore_or_initialize()
    return {
        "path": path,
        "weight": checkpoint.weight.numpy().tolist(),
        "count": int(checkpoint.count.numpy()),
        "step": checkpoint.step,
        "next": next_rows(strategy, checkpoint.data),
    }


def fail_to_save(directory):
    """Returns what comes of four saves: two bad places, and twice too little room."""
    strategy, checkpoint = build()
    if strategy.topology.worker_index == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    noise = np.random.default_rng(0).normal(size=1 << 15)
    large = mirrax.train.Checkpoint(noise=noise)

    def save_twice():
        large.save(f"{directory}/ckpt", asynchronous=True)
        large.save(f"{directory}/ckpt", asynchronous=True)

    return [
        _failure_of(lambda: checkpoint.write(f"{directory}/folder")),
        _failure_of(lambda: checkpoint.write("/proc/ckpt")),
        _failure_of(lambda: large.write(f"{directory}/ckpt")),
        _failure_of(save_twice),
    ]


def _failure_of(save):
    try:
        save()
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing", ""


def save_on_the_chief_only(directory):
    strategy, checkpoint = build()
    try:
        if strategy.topology.worker_index == 0:
            checkpoint.save(directory + "/ckpt")
        else:
            strategy.run(mirrax.function(lambda: _sum_of(jnp.float32(1))))
    except mirrax.errors.JobError as error:
        return type(error).__name__
    return "nothing"


def _sum_of(value):
    return mirrax.get_replica_context().all_reduce("SUM", value)


def save_to_own_directories(directory):
    """As TensorFlow's tutorial does: workers other than the chief remove theirs."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    worker = strategy.topology.worker_index
    own = pathlib.Path(directory, *[f"workertemp_{worker}"] * (worker > 0))
    with strategy.scope():
        weight = mirrax.Variable(7.0)
    checkpoint = mirrax.train.Checkpoint(weight=weight)
    path = mirrax.train.CheckpointManager(checkpoint, own, max_to_keep=1).save()
    found = sorted(f.name for f in own.glob("ckpt*"))
    weight.assign(0.0)
    checkpoint.restore(path)
    if worker:
        shutil.rmtree(own)
    return found, float(weight)
