"""Batches of many lengths: what compiling for each of them costs, and how to avoid it.

    python benchmarks/batch_lengths.py [--steps 60]

Trains a small text model on two replicas. Prints, for each kind of batches, the number
of shapes and the seconds of all steps with compilation; then the ratio to `longest`.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import mirrax

BATCH_SIZE = 8
LONGEST = 200
VOCABULARY, WIDTH = 1000, 64


def sentences(count):
    """Returns a dataset of tokens; 0 is for padding."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, LONGEST + 1, count)
    rows = [rng.integers(1, VOCABULARY, length, np.int32) for length in lengths]
    spec = mirrax.TensorSpec((None,), np.int32)
    return mirrax.data.Dataset.from_generator(lambda: iter(rows), spec)


KINDS = {
    "longest": lambda rows: rows.padded_batch(BATCH_SIZE, drop_remainder=True),
    "few lengths": lambda rows: rows.padded_batch(
        BATCH_SIZE, drop_remainder=True, few_lengths=True
    ),
    "buckets": lambda rows: rows.bucket_by_sequence_length(
        len, bucket_batch_sizes=BATCH_SIZE, drop_remainder=True
    ),
}


def seconds_of(make_batches, steps):
    """Returns the seconds that all steps take, and how many shapes they had."""
    strategy = mirrax.MirroredStrategy()
    with strategy.scope():
        keys = jax.random.split(jax.random.key(0), 2)
        table = mirrax.Variable(jax.random.normal(keys[0], (VOCABULARY, WIDTH)) * 0.1)
        weights = mirrax.Variable(jax.random.normal(keys[1], (WIDTH, WIDTH)) * 0.1)

    @mirrax.function
    def step(tokens):
        def loss_of():
            mask = (tokens > 0)[..., None]
            hidden = jnp.tanh(table.value[tokens] @ weights.value) * mask
            scores = jnp.einsum("btd,bsd->bts", hidden, hidden) / WIDTH**0.5
            mixed = jax.nn.softmax(scores, where=mask) @ hidden
            return jnp.sum(mixed**2) / jnp.sum(mask) / strategy.num_replicas_in_sync

        loss, gradients = mirrax.value_and_grad(loss_of, [table, weights])()
        context = mirrax.get_replica_context()
        for variable, gradient in zip(
            (table, weights), context.all_reduce("sum", gradients), strict=True
        ):
            variable.assign_sub(0.1 * gradient)
        return loss

    # Some more, because buckets drop their remainders.
    batches = make_batches(sentences((steps + 8) * BATCH_SIZE)).take(steps)
    started = time.perf_counter()
    for batch in strategy.experimental_distribute_dataset(batches):
        loss = strategy.run(step, args=(batch,))
    jax.block_until_ready(strategy.experimental_local_results(loss))
    return time.perf_counter() - started, len({batch.shape for batch in batches})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps
    mirrax.config.set_logical_devices("CPU", 2)
    baseline = None
    for name, make_batches in KINDS.items():
        seconds, shapes = seconds_of(make_batches, steps)
        baseline = baseline or seconds
        print(
            f"{name:12} {shapes:3} shapes {seconds:6.1f} s  {seconds / baseline:.2f}x"
        )


if __name__ == "__main__":
    main()
