"""Which results of replicas are equal although each has a program of its own.

The same program for all replicas needs only the analysis of what varies. Programs that
were traced one by one can also differ in what was constant while they were traced, such
as the number of a replica or of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mirrax.jax_internals import ClosedJaxpr, JaxprEqn, Var
from mirrax.run.analysis import is_collective
from mirrax.run.jaxprs import rebuilt


def differing_outputs(programs: Sequence[ClosedJaxpr]) -> list[bool]:
    """Returns for each output whether the programs compute it differently.

    What comes out of a collective counts as the same in all programs.
    """
    columns = zip(
        *(
            [_derivation(program, atom) for atom in program.jaxpr.outvars]
            for program in programs
        ),
        strict=True,
    )
    return [any(text != column[0] for text in column) for column in columns]


def _derivation(program: ClosedJaxpr, output: Any) -> str:
    """Returns the way from collectives and inputs to an output, as text."""
    if not isinstance(output, Var):
        return repr(np.asarray(output.val))
    jaxpr = program.jaxpr
    needed: set[Var] = {output}
    steps: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        if not needed.isdisjoint(eqn.outvars) and not is_collective(eqn):
            steps.append(eqn)
            needed.update(atom for atom in eqn.invars if isinstance(atom, Var))
    met = [var for eqn in jaxpr.eqns if is_collective(eqn) for var in eqn.outvars]
    sources = {
        **{var: f"input {i}" for i, var in enumerate(jaxpr.invars)},
        **{var: f"collective {i}" for i, var in enumerate(met)},
        **{
            var: f"constant {np.asarray(value)!r}"
            for var, value in zip(jaxpr.constvars, program.consts, strict=True)
        },
    }
    used = [var for var in sources if var in needed]
    labels = [sources[var] for var in used]
    return f"{labels}: {rebuilt(jaxpr, (), used, [output], steps[::-1])}"
