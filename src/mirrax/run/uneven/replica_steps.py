"""Runs one replica's program up to each of its collectives.

Loops and branches with collectives inside are run by Python.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mirrax._jax.jaxprs import JaxprEqn, initial_values, kind_of, read
from mirrax.run.uneven.segments import Cut, Segment

Steps = Generator[tuple[Segment, list[Any]], list[Any], list[Any]]
"""Yields collectives with their inputs, is sent their outputs, returns the results."""


def steps_of(program: Cut, inputs: Sequence[Any], device: jax.Device) -> Steps:
    """Runs a program on a device."""
    values = initial_values(program.closed, inputs)
    for segment in program.segments:
        if segment.run is not None:
            given = [read(values, var) for var in segment.inputs]
            with jax.default_device(device):
                outputs = segment.run(*given)
            values.update(zip(segment.outputs, outputs, strict=True))
        if not segment.joint_eqns:
            continue
        eqns = segment.joint_eqns
        given = [read(values, atom) for eqn in eqns for atom in eqn.invars]
        if segment.inner:
            made = yield from _steps_of_block(eqns[0], segment.inner, given, device)
        else:
            made = yield segment, given
        variables = [var for eqn in eqns for var in eqn.outvars]
        values.update(zip(variables, made, strict=True))
    return [read(values, atom) for atom in program.closed.jaxpr.outvars]


def _steps_of_block(
    eqn: JaxprEqn, programs: Sequence[Cut], inputs: list[Any], device: jax.Device
) -> Steps:
    """Runs a loop or a branch, whose programs are given."""
    match eqn.primitive.name:
        case "cond":
            chosen = programs[int(inputs[0])]
            return (yield from steps_of(chosen, inputs[1:], device))
        case "while":
            return (yield from _steps_of_while(eqn, programs, inputs, device))
        case _:
            return (yield from _steps_of_scan(eqn, programs[0], inputs, device))


def _steps_of_while(
    eqn: JaxprEqn, programs: Sequence[Cut], inputs: list[Any], device: jax.Device
) -> Steps:
    test, body = programs
    num_test = eqn.params["cond_nconsts"]
    num_fixed = num_test + eqn.params["body_nconsts"]
    for_test, for_body = inputs[:num_test], inputs[num_test:num_fixed]
    carry = inputs[num_fixed:]
    while (yield from steps_of(test, [*for_test, *carry], device))[0]:
        carry = yield from steps_of(body, [*for_body, *carry], device)
    return carry


def _steps_of_scan(
    eqn: JaxprEqn, body: Cut, inputs: list[Any], device: jax.Device
) -> Steps:
    num_fixed, num_carry = eqn.params["num_consts"], eqn.params["num_carry"]
    fixed, rest = inputs[:num_fixed], inputs[num_fixed:]
    carry, sequences = rest[:num_carry], rest[num_carry:]
    order = range(eqn.params["length"])[:: -1 if eqn.params["reverse"] else 1]
    rows: dict[int, list[Any]] = {}
    for index in order:
        with jax.default_device(device):
            items = [_item(array, index) for array in sequences]
        made = yield from steps_of(body, [*fixed, *carry, *items], device)
        carry, rows[index] = made[:num_carry], made[num_carry:]
    with jax.default_device(device):
        if not rows:
            kinds = map(kind_of, eqn.outvars[num_carry:])
            return [*carry, *(jnp.zeros(*kind) for kind in kinds)]
        columns = zip(*(rows[index] for index in sorted(rows)), strict=True)
        return [*carry, *(_stack(*column) for column in columns)]


@jax.jit
def _item(array: jax.Array, index: int) -> jax.Array:
    return lax.dynamic_index_in_dim(array, index, keepdims=False)


@jax.jit
def _stack(*items: jax.Array) -> jax.Array:
    return jnp.stack(items)
