"""What a worker is interrupted in: the start of a job, or an endless row of steps."""

import os
import sys
import time

import jax.numpy as jnp

import mirrax


def main(moment):
    if moment == "start-up" and '"index": 1' in os.environ["TF_CONFIG"]:
        print("asleep", flush=True)
        time.sleep(600)
    strategy = mirrax.MultiWorkerMirroredStrategy()

    @mirrax.function
    def step():
        return mirrax.get_replica_context().all_reduce("SUM", jnp.ones(3))

    strategy.run(step)
    print("ready", flush=True)
    while True:
        strategy.run(step)


if __name__ == "__main__":
    main(sys.argv[1])
