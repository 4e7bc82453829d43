"""Cuts a traced program at its collectives into segments that run on one device."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax

from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    called_jaxpr,
    evaluate,
    inner_jaxprs,
    kind_of,
    rebuilt,
    stand_ins,
)
from mirrax.run.varying import has_collective, is_collective


class NotSegmentable(Exception):  # noqa: N818 - a signal to the engine
    """A collective stands inside a loop or a branch, where nothing can be cut."""


@dataclasses.dataclass(frozen=True)
class Segment:
    """A piece of a program up to the next collectives.

    Args:
        run: The compiled piece; None if it is empty.
        inputs: What it needs.
        outputs: What it computes that is needed later.
        collectives: The collectives that follow it.
    """

    run: Any
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    collectives: tuple[JaxprEqn, ...]


@dataclasses.dataclass(frozen=True)
class Cut:
    """A program, and the pieces it was cut into."""

    closed: ClosedJaxpr
    segments: tuple[Segment, ...]

    @property
    def collectives(self) -> list[Any]:
        """What the replicas must agree on: operation and shapes of each collective."""
        return [
            [
                (eqn.primitive.name, [kind_of(a) for a in eqn.invars])
                for eqn in segment.collectives
            ]
            for segment in self.segments
        ]


def cut(closed: ClosedJaxpr, axis_env: Sequence[tuple[str, int]]) -> Cut:
    """Returns the program in pieces, or raises `NotSegmentable`."""
    closed = _open_calls(closed, axis_env)
    jaxpr = closed.jaxpr
    segments: list[Segment] = []
    needed = {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    for work, collectives in reversed(_group(jaxpr.eqns)):
        needed -= {var for eqn in collectives for var in eqn.outvars}
        needed |= {a for eqn in collectives for a in eqn.invars if isinstance(a, Var)}
        segment = _compile(jaxpr, work, collectives, needed)
        segments.append(segment)
        made = {var for eqn in work for var in eqn.outvars}
        needed = (needed - made) | set(segment.inputs)
    return Cut(closed, tuple(reversed(segments)))


def _group(
    eqns: Sequence[JaxprEqn],
) -> list[tuple[list[JaxprEqn], list[JaxprEqn]]]:
    """Returns runs of work, each with the collectives right after it.

    Collectives that do not wait for each other are one group.
    """
    groups: list[tuple[list[JaxprEqn], list[JaxprEqn]]] = [([], [])]
    for eqn in eqns:
        _, collectives = groups[-1]
        made = {var for collective in collectives for var in collective.outvars}
        if not is_collective(eqn):
            if collectives:
                groups.append(([], []))
            groups[-1][0].append(eqn)
        elif made.isdisjoint(a for a in eqn.invars if isinstance(a, Var)):
            collectives.append(eqn)
        else:
            groups.append(([], [eqn]))
    return groups


def _compile(
    whole: Jaxpr,
    work: Sequence[JaxprEqn],
    collectives: Sequence[JaxprEqn],
    needed: set[Var],
) -> Segment:
    made = dict.fromkeys(var for eqn in work for var in eqn.outvars)
    inputs = tuple(
        dict.fromkeys(
            atom
            for eqn in work
            for atom in eqn.invars
            if isinstance(atom, Var) and atom not in made
        )
    )
    outputs = tuple(var for var in made if var in needed)
    if not work:
        return Segment(None, inputs, outputs, tuple(collectives))
    jaxpr = rebuilt(whole, (), inputs, outputs, work)

    @jax.jit
    def piece(*values: Any) -> list[Any]:
        return jax.core.eval_jaxpr(jaxpr, (), *values)

    return Segment(piece, inputs, outputs, tuple(collectives))


def _open_calls(
    closed: ClosedJaxpr, axis_env: Sequence[tuple[str, int]]
) -> ClosedJaxpr:
    """Returns the program with the calls that contain collectives inlined."""
    if not any(_hides_collective(eqn) for eqn in closed.jaxpr.eqns):
        return closed

    def inline(eqn: JaxprEqn, inputs: list[Any]) -> list[Any] | None:
        if not _hides_collective(eqn):
            return None
        called = called_jaxpr(eqn)
        if called is None:
            raise NotSegmentable
        return evaluate(called, inputs, inline)

    def opened(*inputs: Any) -> list[Any]:
        return evaluate(closed, inputs, inline)

    return jax.make_jaxpr(opened, axis_env=list(axis_env))(*stand_ins(closed.jaxpr))


def _hides_collective(eqn: JaxprEqn) -> bool:
    return any(has_collective(inner) for inner in inner_jaxprs(eqn))
