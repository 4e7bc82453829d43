"""Finds which results differ between replicas that have programs of their own.

Programs that are traced one by one can differ in their constants, such as the number of
a replica or of its rows. Digests of how each output is computed find that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

from mirrax._jax.jaxpr_text import describe_lines, describe_params, find_constants
from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    JaxprEqn,
    Var,
    all_equations,
    inner_programs,
    opaque_parameters,
)
from mirrax.collectives.worker_exchange import digest
from mirrax.run.varying import is_collective


def differing_columns(digests: Sequence[Sequence[str]]) -> list[bool]:
    """Returns for each output whether the programs with these digests differ in it."""
    columns = zip(*digests, strict=True)
    return [any(digest != column[0] for digest in column) for column in columns]


def output_digests(program: ClosedJaxpr) -> list[str]:
    """Returns for each output a digest of how it is computed.

    What comes out of a collective counts as the same in all programs.
    """
    jaxpr = program.jaxpr
    digests = {var: f"input {index}" for index, var in enumerate(jaxpr.invars)}
    for var, value in zip(jaxpr.constvars, program.consts, strict=True):
        digests[var] = digest(value)

    def of(atom: Any) -> str:
        return digests[atom] if isinstance(atom, Var) else digest(atom.val)

    num_collectives = 0
    for eqn in jaxpr.eqns:
        if is_collective(eqn):
            made = f"collective {num_collectives}"
            num_collectives += 1
        else:
            made = _digest_of(eqn, [of(atom) for atom in eqn.invars])
        for index, var in enumerate(eqn.outvars):
            digests[var] = f"{made} {index}"
    return [of(atom) for atom in jaxpr.outvars]


def _digest_of(eqn: JaxprEqn, inputs: Sequence[str]) -> str:
    texts = [eqn.primitive.name, describe_params(eqn), _hashes(eqn), *inputs]
    for inner in inner_programs(eqn):
        texts += map(_hashes, all_equations(inner.jaxpr))
        texts += [line for line, _ in describe_lines(inner.jaxpr)]
        texts += [digest(value) for _, value in find_constants(inner)]
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()


def _hashes(eqn: JaxprEqn) -> str:
    """Returns numbers for the opaque parameters; equal ones have the same."""
    opaque = opaque_parameters(eqn)
    return str([hash(x) if isinstance(x, Hashable) else id(x) for x in opaque])
