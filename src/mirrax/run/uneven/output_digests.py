"""Finds which results differ between replicas that have programs of their own.

Programs that are traced one by one can differ in their constants, such as the number of
a replica or of its rows. Digests of how each output is computed find that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from mirrax._jax.jaxprs import ClosedJaxpr, Jaxpr, Var, all_equations, inner_programs
from mirrax.run.compiled.varying import is_collective
from mirrax.values.array_like import on_host

_ADDRESS = re.compile(r"0x[0-9a-f]+")


def differing_columns(digests: Sequence[Sequence[bytes]]) -> list[bool]:
    """Returns for each output whether the programs with these digests differ in it."""
    columns = zip(*digests, strict=True)
    return [any(digest != column[0] for digest in column) for column in columns]


def output_digests(program: ClosedJaxpr) -> list[bytes]:
    """Returns for each output a digest of how it is computed.

    What comes out of a collective counts as the same in all programs.
    """
    jaxpr = program.jaxpr
    digests: dict[Var, bytes] = {
        var: _digest("input", index) for index, var in enumerate(jaxpr.invars)
    }
    for var, value in zip(jaxpr.constvars, program.consts, strict=True):
        digests[var] = _digest("constant", value)
    num_met = 0
    for eqn in jaxpr.eqns:
        if is_collective(eqn):
            source = _digest("collective", num_met)
            num_met += 1
        else:
            inputs = [_of(atom, digests) for atom in eqn.invars]
            source = _digest(eqn.primitive.name, sorted(eqn.params.items()), inputs)
        for index, var in enumerate(eqn.outvars):
            digests[var] = _digest(source, index)
    return [_of(atom, digests) for atom in jaxpr.outvars]


def _of(atom: Any, digests: dict[Var, bytes]) -> bytes:
    return digests[atom] if isinstance(atom, Var) else _digest("literal", atom.val)


def _digest(*things: Any) -> bytes:
    total = hashlib.blake2b(digest_size=16)
    for thing in things:
        total.update(_bytes_of(thing))
    return total.digest()


def _bytes_of(thing: Any) -> bytes:
    if isinstance(thing, bytes):
        return thing
    if isinstance(thing, ClosedJaxpr):
        return b"".join(map(_bytes_of, (_inner(thing.jaxpr), *thing.consts)))
    if isinstance(thing, Jaxpr):
        return _inner(thing)
    if isinstance(thing, tuple | list):
        return b"(" + b",".join(map(_bytes_of, thing)) + b")"
    if hasattr(thing, "shape") and hasattr(thing, "dtype") and not callable(thing):
        try:
            array = on_host(thing)
            return f"{array.dtype}{array.shape}".encode() + array.tobytes()
        except TypeError:
            return repr(thing).encode()
    return _ADDRESS.sub("", repr(thing)).encode()


def _inner(jaxpr: Jaxpr) -> bytes:
    """Returns a program inside another as text, with the constants inside it."""
    consts = [
        _bytes_of(closed.consts)
        for eqn in all_equations(jaxpr)
        for closed in inner_programs(eqn)
    ]
    return _ADDRESS.sub("", str(jaxpr)).encode() + b"".join(consts)
