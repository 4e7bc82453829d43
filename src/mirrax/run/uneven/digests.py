"""Finds what differs between replicas that have programs of their own.

Programs that are traced one by one can differ in their constants, such as the number of
a replica or of its rows. Digests of how each value is computed find that.
"""

from __future__ import annotations

import dataclasses
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
from mirrax.run.uneven.segments import BLOCKS, programs_of_block
from mirrax.run.varying import is_collective


def differing_columns(digests: Sequence[Sequence[str]]) -> list[bool]:
    """Returns for each output whether the programs with these digests differ in it."""
    columns = zip(*digests, strict=True)
    return [any(digest != column[0] for digest in column) for column in columns]


def find_digests(program: ClosedJaxpr) -> list[str]:
    """Returns a digest of how each output of a program is computed.

    What comes out of a collective counts as the same in all programs.
    """
    inputs = [_Digest(f"input {index}") for index in range(len(program.in_avals))]
    return [each.text for each in _outputs(program, inputs, itertools.count())]


@dataclasses.dataclass(frozen=True)
class _Digest:
    """How a value is computed.

    Args:
        carried: The values it uses that the loops around it carry to the next step.
    """

    text: str
    carried: frozenset[str] = frozenset()


def _outputs(
    program: ClosedJaxpr,
    inputs: Sequence[_Digest],
    numbers: Iterator[int],
    depth: int = 0,
) -> list[_Digest]:
    """Returns the digests of the outputs for those of the inputs.

    Args:
        numbers: Counts the collectives of the whole program.
        depth: How many loops are around it.
    """
    jaxpr = program.jaxpr
    digests = dict(zip(jaxpr.invars, inputs, strict=True))
    for var, value in zip(jaxpr.constvars, program.consts, strict=True):
        digests[var] = _Digest(digest(value))

    def of(atoms: Iterable[Any]) -> list[_Digest]:
        return [
            digests[atom] if isinstance(atom, Var) else _Digest(digest(atom.val))
            for atom in atoms
        ]

    for eqn in jaxpr.eqns:
        given, called = of(eqn.invars), called_jaxpr(eqn)
        references = [atom for atom in eqn.invars if is_reference(atom)]
        if references:
            # It may write what it is given to any of them.
            made = [_combined([_text_of(eqn)], given)]
            digests.update((atom, made[0]) for atom in references)
        elif is_collective(eqn):
            made = [_Digest(f"collective {next(numbers)}")]
        elif called is not None:
            made = _outputs(called, given, numbers, depth)
        elif eqn.primitive.name in BLOCKS:
            made = _of_block(eqn, given, numbers, depth)
        else:
            made = [_combined([_text_of(eqn)], given)]
        if len(made) != len(eqn.outvars):
            made = [_combined([str(i)], made) for i in range(len(eqn.outvars))]
        digests.update(zip(eqn.outvars, made, strict=True))
    return of(jaxpr.outvars)


def _of_block(
    eqn: JaxprEqn, inputs: list[_Digest], numbers: Iterator[int], depth: int
) -> list[_Digest]:
    texts, params, programs = [describe_params(eqn)], eqn.params, programs_of_block(eqn)
    if eqn.primitive.name == "cond":
        rows = [_outputs(each, inputs[1:], numbers, depth + 1) for each in programs]
        columns = zip(*rows, strict=True)
        return [_combined(texts, [inputs[0], *column]) for column in columns]
    num_test = params.get("cond_nconsts", 0)
    num_fixed = num_test + params.get("body_nconsts", params.get("num_consts", 0))
    start = inputs[num_fixed : num_fixed + params.get("num_carry", len(inputs))]
    names = [f"carried {depth} {index}" for index in range(len(start))]
    carry = [_Digest(name, frozenset([name])) for name in names]
    items = inputs[num_fixed + len(start) :]
    given = [*inputs[num_test:num_fixed], *carry, *items]
    after = _outputs(programs[-1], given, numbers, depth + 1)
    test = []
    if eqn.primitive.name == "while":
        test = _outputs(programs[0], [*inputs[:num_test], *carry], numbers, depth + 1)
    steps = dict(zip(names, zip(start, after, strict=False), strict=True))

    def of_all_steps(value: _Digest) -> _Digest:
        """Returns the digest of a value, with that of all that is carried into it."""
        used, found = [value, *test], set[str]()
        for each in used:
            new = sorted(each.carried & steps.keys() - found)
            found.update(new)
            used += itertools.chain.from_iterable(steps[name] for name in new)
        combined = _combined(texts, used)
        return _Digest(combined.text, combined.carried - steps.keys())

    results = [*carry, *after[len(start) :]]
    return [of_all_steps(value) for value in results]


def _combined(texts: Sequence[str], used: Sequence[_Digest]) -> _Digest:
    text = "\n".join([*texts, *(each.text for each in used)])
    short = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return _Digest(short, frozenset().union(*(each.carried for each in used)))


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
