"""Adam whose state fits into a memory limit when it is sharded, and not when mirrored.

python examples/memory_limit.py

Weights and both moments of Adam take 151 MB. Eight CPU devices store that once when it
is sharded, and 1.2 GB when it is mirrored. Each kind trains in a process of its own,
which may take 950 MB more than JAX itself needs (`RLIMIT_DATA` of Linux).
"""

import pathlib
import re
import resource
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

import mirrax

LAYERS, WIDTH, ROWS, STEPS = 12, 1024, 32, 3
LIMIT = 950_000_000
NUM_DEVICES = 8


def train(strategy, layers, steps):
    """Returns the losses of a network of equal layers."""
    optimizer = optax.adam(1e-3)
    keys = jax.random.split(jax.random.key(0), layers)
    with strategy.scope():
        weights = [
            mirrax.Variable(jax.random.normal(key, (WIDTH, WIDTH)) / WIDTH**0.5)
            for key in keys
        ]
        # Their shapes are enough, and all moments start with the same zeros.
        shapes = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in weights]
        kinds = jax.eval_shape(optimizer.init, shapes)
        zeros = {s: jnp.zeros(s.shape, s.dtype) for s in set(jax.tree.leaves(kinds))}
        slots = jax.tree.map(
            lambda s: mirrax.Variable(zeros[s], trainable=False), kinds
        )

    def loss_of(x):
        hidden = x
        for weight in weights:
            hidden = jnp.tanh(hidden @ weight.value)
        return mirrax.nn.compute_average_loss((hidden - x) ** 2)

    @mirrax.function
    def step(x):
        result = mirrax.value_and_grad(lambda: loss_of(x), weights)()
        loss, gradients = mirrax.get_replica_context().all_reduce("SUM", result)
        # Variables are nodes of a structure, with their values inside.
        old = jax.tree.map(lambda value: value, (slots, weights))
        updates, new_slots = optimizer.update(gradients, *old)
        new = (new_slots, optax.apply_updates(old[1], updates))
        is_variable = lambda node: isinstance(node, mirrax.Variable)  # noqa: E731
        variables = jax.tree.leaves((slots, weights), is_leaf=is_variable)
        for variable, value in zip(variables, jax.tree.leaves(new), strict=True):
            variable.assign(value)
        return loss

    rows = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype("f")
    dataset = mirrax.data.Dataset.from_tensor_slices(rows).repeat(steps).batch(ROWS)
    batches = strategy.experimental_distribute_dataset(dataset)
    return [float(strategy.run(step, (batch,))) for batch in batches]


def limit_memory():
    """Lets this process take at most `LIMIT` bytes more than it has."""
    status = pathlib.Path("/proc/self/status").read_text()
    in_use = 1024 * int(re.search(r"VmData:\s+(\d+)", status)[1])
    limit = in_use + LIMIT
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def main_of_child(kind):
    mirrax.config.set_logical_devices("CPU", NUM_DEVICES)
    devices = [f"CPU:{i}" for i in range(NUM_DEVICES)]
    strategy = mirrax.MirroredStrategy(devices, shard_state=kind == "sharded")
    # A small model first: the threads that JAX starts for it are not to be counted.
    train(strategy, layers=1, steps=1)
    limit_memory()
    try:
        losses = train(strategy, LAYERS, STEPS)
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        notes = getattr(error, "__notes__", [])
        sys.exit("\n".join([f"out of memory: {type(error).__name__}: {error}", *notes]))
    print("losses:", *(f"{loss:.4f}" for loss in losses))


def main():
    """Returns the exit code and the output of both processes."""
    results = {}
    for kind in ("mirrored", "sharded"):
        command = [sys.executable, __file__, kind]
        child = subprocess.run(
            command, capture_output=True, text=True, timeout=600, check=False
        )
        results[kind] = child.returncode, child.stdout + child.stderr
        print(f"{kind}: {results[kind][1].strip()}")
    return results


if __name__ == "__main__":
    main_of_child(sys.argv[1]) if sys.argv[1:] else main()
