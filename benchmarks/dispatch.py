"""What a call costs with many variables, against passing the arrays by hand."""

import sys

import jax
import numpy as np
from paired import compare

import mirrax


def by_hand(strategy, count):
    """Returns a step that keeps `count` arrays in a list."""
    sharding = strategy.topology.replicated
    state = [jax.device_put(np.float32(i), sharding) for i in range(count)]
    step = jax.jit(
        lambda arrays: [array + 1 for array in arrays],
        donate_argnums=0,
        in_shardings=([sharding] * count,),
        out_shardings=[sharding] * count,
    )

    def last():
        return state[0]

    def call():
        nonlocal state
        state = step(state)
        return last

    return call


def with_mirrax(strategy, count):
    """Returns a step that changes `count` variables."""
    with strategy.scope():
        variables = [mirrax.Variable(np.float32(i)) for i in range(count)]

    @mirrax.function
    def step():
        for variable in variables:
            variable.assign_add(1.0)

    def last():
        return variables[0].stored

    def call():
        strategy.run(step)
        return last

    return call


def main():
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    kept = True
    for count in (100, 500):
        comparison = compare(
            with_mirrax(strategy, count), by_hand(strategy, count), calls=20, rounds=200
        )
        kept &= comparison.report(f"{count} variables", limit=1.10)
    sys.exit(not kept)


if __name__ == "__main__":
    main()
