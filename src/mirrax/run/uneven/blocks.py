"""Runs a loop or a branch that has collectives inside, on all replicas together.

Python chooses the branch and counts the steps, by the values of the first replica. The
others have the same: `find_varying` refuses collectives under a condition that varies,
and `Digests.decisions` finds conditions that were traced differently.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mirrax._jax.jaxprs import JaxprEqn, kind_of

ReplicaValues = list[list[Any]]
"""The values of each replica."""

Run = Callable[[int, ReplicaValues], ReplicaValues]
"""Runs one of the programs of a block, by its number, on the inputs of each replica."""


def run_block(
    blocks: Sequence[JaxprEqn],
    inputs: ReplicaValues,
    run: Run,
    devices: Sequence[jax.Device],
) -> ReplicaValues:
    """Returns the outputs of each replica.

    Args:
        blocks: The equation of each replica: a cond, a while or a scan.
        inputs: The inputs of these equations.
        devices: Where the replicas are.
    """
    match blocks[0].primitive.name:
        case "cond":
            return run(int(inputs[0][0]), [row[1:] for row in inputs])
        case "while":
            return _while(blocks[0], inputs, run)
        case _:
            return _scan(blocks, inputs, run, devices)


def _while(block: JaxprEqn, inputs: ReplicaValues, run: Run) -> ReplicaValues:
    num_test, num_fixed = block.params["cond_nconsts"], block.params["body_nconsts"]
    test, fixed, carry = _split(inputs, num_test, num_fixed)
    while run(0, _beside(test, carry))[0][0]:
        carry = run(1, _beside(fixed, carry))
    return carry


def _scan(
    blocks: Sequence[JaxprEqn],
    inputs: ReplicaValues,
    run: Run,
    devices: Sequence[jax.Device],
) -> ReplicaValues:
    params = blocks[0].params
    num_carry, step = params["num_carry"], -1 if params["reverse"] else 1
    fixed, carry, sequences = _split(inputs, params["num_consts"], num_carry)
    made: list[ReplicaValues] = []
    for index in range(params["length"])[::step]:
        items = []
        for row, device in zip(sequences, devices, strict=True):
            with jax.default_device(device):
                items.append([_item(array, index) for array in row])
        carry, rows = _split(run(0, _beside(fixed, carry, items)), num_carry)
        made.append(rows)
    stacked = []
    for number, (block, device) in enumerate(zip(blocks, devices, strict=True)):
        columns = zip(*(rows[number] for rows in made[::step]), strict=True)
        with jax.default_device(device):
            outputs = [_stack(*column) for column in columns]
            kinds = map(kind_of, block.outvars[num_carry:])
            stacked.append(outputs or [jnp.zeros(*kind) for kind in kinds])
    return _beside(carry, stacked)


def _split(rows: ReplicaValues, *counts: int) -> list[ReplicaValues]:
    """Returns the values of each replica in groups of so many, and the rest."""
    ends = [0, *itertools.accumulate(counts), None]
    return [[row[a:b] for row in rows] for a, b in itertools.pairwise(ends)]


def _beside(*groups: ReplicaValues) -> ReplicaValues:
    """Returns the values of each replica in all of the groups."""
    rows = zip(*groups, strict=True)
    return [list(itertools.chain.from_iterable(own)) for own in rows]


@jax.jit
def _item(array: jax.Array, index: int) -> jax.Array:
    item: jax.Array = lax.dynamic_index_in_dim(array, index, keepdims=False)
    return item


@jax.jit
def _stack(*items: jax.Array) -> jax.Array:
    return jnp.stack(items)
