"""Finds what differs between replicas that have programs of their own.

Programs that are traced one by one can differ in their constants, such as the number of
a replica or of its rows. Digests of how each value is computed find that.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from mirrax._jax.jaxpr_text import describe_lines, describe_params, find_constants
from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    JaxprEqn,
    Var,
    all_equations,
    called_jaxpr,
    inner_programs,
    is_reference,
    opaque_parameters,
)
from mirrax.collectives.worker_exchange import digest
from mirrax.run.varying import is_collective


def differing_columns(digests: Sequence[Sequence[str]]) -> list[bool]:
    """Returns for each output whether the programs with these digests differ in it."""
    columns = zip(*digests, strict=True)
    return [any(digest != column[0] for digest in column) for column in columns]


def find_digests(program: ClosedJaxpr) -> list[str]:
    """Returns a digest of how each output of a program is computed.

    What comes out of a collective counts as the same in all programs. The outputs of a
    loop or a branch count as computed from all of its inputs.
    """
    inputs = [f"input {index}" for index in range(len(program.in_avals))]
    return _outputs(program, inputs, itertools.count())


def _outputs(
    program: ClosedJaxpr, inputs: Sequence[str], numbers: Iterator[int]
) -> list[str]:
    """Returns the digests of the outputs for those of the inputs.

    Args:
        numbers: Counts the collectives of the whole program.
    """
    jaxpr = program.jaxpr
    digests = dict(zip(jaxpr.invars, inputs, strict=True))
    digests |= zip(jaxpr.constvars, map(digest, program.consts), strict=True)

    def of(atoms: Iterable[Any]) -> list[str]:
        return [
            digests[atom] if isinstance(atom, Var) else digest(atom.val)
            for atom in atoms
        ]

    for eqn in jaxpr.eqns:
        given, called = of(eqn.invars), called_jaxpr(eqn)
        references = [atom for atom in eqn.invars if is_reference(atom)]
        if references:
            # It may write what it is given to any of them.
            made = [_combined(_text_of(eqn), given)]
            digests |= dict.fromkeys(references, made[0])
        elif is_collective(eqn):
            made = [f"collective {next(numbers)}"]
        elif called is not None:
            made = _outputs(called, given, numbers)
        else:
            made = [_combined(_text_of(eqn), given)]
        if len(made) != len(eqn.outvars):
            made = [_combined(str(i), made) for i in range(len(eqn.outvars))]
        digests |= zip(eqn.outvars, made, strict=True)
    return of(jaxpr.outvars)


def _combined(text: str, used: Sequence[str]) -> str:
    return hashlib.blake2b(
        "\n".join([text, *used]).encode(), digest_size=16
    ).hexdigest()


def _text_of(eqn: JaxprEqn) -> str:
    texts = [eqn.primitive.name, describe_params(eqn), _hashes(eqn)]
    for inner in inner_programs(eqn):
        texts += map(_hashes, all_equations(inner.jaxpr))
        texts += [line for line, _ in describe_lines(inner.jaxpr)]
        texts += [digest(value) for _, value in find_constants(inner)]
    return "\n".join(texts)


def _hashes(eqn: JaxprEqn) -> str:
    """Returns numbers for the opaque parameters; equal ones have the same."""
    opaque = opaque_parameters(eqn)
    return str([hash(x) if isinstance(x, Hashable) else id(x) for x in opaque])
