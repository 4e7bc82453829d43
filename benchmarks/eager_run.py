"""What an eager `run` costs on two replicas."""

import sys

import jax.numpy as jnp
from paired import best

import mirrax


def report(name, seconds, limit):
    verdict = "ok" if seconds <= limit else "MISSED"
    print(f"{name:48s} {seconds * 1e6:9.1f} us  (limit {limit * 1e6:.0f}: {verdict})")
    return seconds <= limit


def main():
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    value = strategy.experimental_distribute_values_from_function(
        lambda context: jnp.ones(4)
    )

    def reduce_once(x):
        return mirrax.get_replica_context().all_reduce("SUM", x)

    empty = best(lambda: strategy.run(lambda x: None, args=(value,)))
    reduced = best(lambda: strategy.run(reduce_once, args=(value,)))
    kept = report("empty run", empty, 60e-6)
    kept &= report("run with one all_reduce", reduced, 500e-6)
    sys.exit(not kept)


if __name__ == "__main__":
    main()
