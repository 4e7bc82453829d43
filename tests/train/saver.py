"""Saves checkpoints without end; says each that is whole. To be killed.

    python saver.py <directory> <1 to write in the background>

What a checkpoint must hold follows from its number, so that whoever restores it can
tell whether it is as it was saved.
"""

import itertools
import pathlib
import sys

import jax.numpy as jnp
import numpy as np

import mirrax

SHAPES = [(64, 64), (256,), (3, 5, 7)]


def expected(number):
    """What checkpoint `number` holds."""
    random = np.random.default_rng(number)
    return [random.normal(size=shape).astype(np.float32) for shape in SHAPES]


def build():
    variables = [mirrax.Variable(jnp.zeros(shape)) for shape in SHAPES]
    return mirrax.train.Checkpoint(variables=variables, number=0)


def check_newest(directory, last_said):
    """Restores the newest whole checkpoint; raises unless it is what was saved."""
    path = mirrax.train.latest_checkpoint(directory)
    if path is None:
        assert last_said == 0, f"{last_said} was whole, but nothing is left."
        return 0
    checkpoint = build()
    checkpoint.restore(path).assert_consumed()
    assert checkpoint.number >= last_said, f"{last_said} was whole; found {path}."
    assert checkpoint.number == int(path.rsplit("-", 1)[1])
    for variable, array in zip(checkpoint.variables, expected(checkpoint.number)):
        np.testing.assert_array_equal(variable.numpy(), array)
    return checkpoint.number


def save_for_ever(directory, asynchronous):
    checkpoint = build()
    manager = mirrax.train.CheckpointManager(
        checkpoint, directory, max_to_keep=2, asynchronous=asynchronous
    )
    manager.restore_or_initialize()
    first = checkpoint.number + 1
    for number in itertools.count(first):
        for variable, array in zip(checkpoint.variables, expected(number)):
            variable.assign(array)
        checkpoint.number = number
        manager.save(number)
        if number == first:
            manager.wait()
        if number == first or not asynchronous:
            print(number, flush=True)


if __name__ == "__main__":
    save_for_ever(pathlib.Path(sys.argv[1]), sys.argv[2] == "1")
