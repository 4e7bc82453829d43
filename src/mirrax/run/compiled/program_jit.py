"""Jits a trace, with its variables and arguments in the order of the calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax

from mirrax._jax.config import without_nan_rerun
from mirrax.devices.topology import Topology
from mirrax.run.compiled.placement import Placement, placement_of_variable
from mirrax.run.compiled.tracing import Traced
from mirrax.run.compiled.variable_io import VariableIO
from mirrax.variables.sharded_variable import from_stored, to_stored


def compiled(
    traced: Traced,
    variable_io: VariableIO,
    topology: Topology | None,
    placements: Sequence[Placement],
    donated: Sequence[int],
) -> Any:
    """Returns a program of four lists of arrays, which overwrites the first and third.

    They are the variables that it changes, those it only reads, the donated arguments
    and the others. It returns the variables that are written, then the results.

    Args:
        topology: The devices, if they are several.
        donated: The numbers of the arguments that it may overwrite.
    """
    kept = [i for i in range(len(placements)) if i not in donated]
    argument_order = _positions([*donated, *kept], range(len(placements)))
    read_order = _positions(
        [*variable_io.changed, *variable_io.read_only], traced.reads
    )
    write_order = _positions(traced.writes, variable_io.written)
    num_writes = len(write_order)

    def flat(
        changed: list[Any], read_only: list[Any], donated: list[Any], kept: list[Any]
    ) -> list[Any]:
        variables = [*changed, *read_only]
        arguments = [*donated, *kept]
        outputs = traced.evaluate(
            [arguments[i] for i in argument_order],
            [
                from_stored(variable, variables[i])
                for variable, i in zip(traced.reads, read_order, strict=True)
            ],
        )
        new = map(to_stored, variable_io.written, (outputs[i] for i in write_order))
        return [*new, *outputs[num_writes:]]

    flat.__name__ = "mirrax_function"
    if topology is None:
        return jax.jit(flat, donate_argnums=(0, 2))

    def shardings(placements: Iterable[Placement]) -> list[Any]:
        return [placement.sharding(topology) for placement in placements]

    without_nan_rerun(
        flat, "a function over several replicas (one replica shows the operation)"
    )
    return jax.jit(
        flat,
        donate_argnums=(0, 2),
        in_shardings=(
            shardings(map(placement_of_variable, variable_io.changed)),
            shardings(map(placement_of_variable, variable_io.read_only)),
            shardings(placements[i] for i in donated),
            shardings(placements[i] for i in kept),
        ),
        out_shardings=[
            *shardings(map(placement_of_variable, variable_io.written)),
            *shardings(traced.result.of_outputs),
        ],
    )


def _positions(items: Sequence[Any], wanted: Sequence[Any]) -> list[int]:
    """Returns where each of `wanted` is found among `items`.

    >>> _positions("abc", "cab")
    [2, 0, 1]
    """
    positions = {item: position for position, item in enumerate(items)}
    return [positions[item] for item in wanted]
