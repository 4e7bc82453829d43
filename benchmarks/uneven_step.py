"""A step on a last partial batch against a step on a full one."""

import sys

import jax.numpy as jnp
import numpy as np
from compiled_step import with_mirrax
from paired import compare

import mirrax

SIZES = [784, 128, 10]
BATCH = 256


def parts(strategy, whole, sizes):
    starts = np.cumsum([0, *sizes])
    return strategy.experimental_distribute_values_from_function(
        lambda c: jnp.asarray(
            whole[starts[c.replica_id_in_sync_group] :][
                : sizes[c.replica_id_in_sync_group]
            ]
        )
    )


def main():
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    random = np.random.default_rng(1)
    images = random.normal(size=(BATCH, SIZES[0])).astype(np.float32)
    labels = random.integers(0, 10, BATCH).astype(np.int32)
    even, uneven = (
        with_mirrax(
            strategy,
            SIZES,
            BATCH,
            parts(strategy, images, sizes),
            parts(strategy, labels, sizes),
        )
        for sizes in ([128, 128], [128, 64])
    )
    comparison = compare(uneven, even, calls=10)
    sys.exit(not comparison.report("uneven (128 + 64) against even (128 + 128)", 2.0))


if __name__ == "__main__":
    main()
