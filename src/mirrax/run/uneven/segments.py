"""Cuts a traced program at its collectives into segments that run on one device.

A loop or a branch with collectives ends a segment too; what is inside is cut likewise.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from mirrax._jax.jaxpr_text import describe_params
from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    bind,
    called_jaxpr,
    evaluate,
    inner_jaxprs,
    is_reference,
    kind_of,
    rebuilt,
    retraced,
)
from mirrax.collectives.worker_guard import guarded, replica_program
from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import AXIS, Topology
from mirrax.run.varying import has_collective, is_collective


@dataclasses.dataclass(frozen=True)
class Segment:
    """A piece of a program, and what comes after it: collectives, or a loop or branch.

    Args:
        run: The compiled piece; None if it is empty.
        outputs: What it computes that is needed later.
        joint_eqns: What all replicas do together after it: collectives; or one
            loop or branch with collectives inside.
        exchange: The collectives as a program over all replicas.
        inner: The programs of the loop or branch, cut likewise.
        place: Its number in the program, after those of the loops and branches around.
    """

    run: Any
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    joint_eqns: tuple[JaxprEqn, ...]
    exchange: Any
    inner: tuple[Cut, ...]
    place: tuple[int, ...]

    @functools.cached_property
    def collectives(self) -> str:
        """What the replicas must agree on: the collectives, their shapes and place."""
        texts = [
            f"{eqn.primitive.name} of {[kind_of(atom) for atom in eqn.invars]} "
            f"{describe_params(eqn)}"
            for eqn in self.joint_eqns
        ]
        if self.inner:
            (block,) = self.joint_eqns
            inside = [each.collectives for each in self.inner]
            texts = [f"{block.primitive.name} {block.params.get('length')} {inside}"]
        return f"{self.place}: {', '.join(texts)}"


@dataclasses.dataclass(frozen=True)
class Cut:
    """A program, and the pieces it was cut into."""

    closed: ClosedJaxpr
    segments: tuple[Segment, ...]

    @property
    def collectives(self) -> list[str]:
        return [segment.collectives for segment in self.segments]


def cut(closed: ClosedJaxpr, topology: Topology, place: tuple[int, ...] = ()) -> Cut:
    """Returns the program in pieces, or raises `NotTraceable`.

    Args:
        place: Where the loop or branch is that the program is in.
    """
    closed = _open_calls(closed, topology)
    jaxpr = closed.jaxpr
    made_here = itertools.chain.from_iterable(eqn.outvars for eqn in jaxpr.eqns)
    if any(map(is_reference, itertools.chain(jaxpr.constvars, made_here))):
        raise NotTraceable  # One piece cannot hand a reference to another.
    segments: list[Segment] = []
    needed = {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    for number, (work, joint_eqns) in reversed(list(enumerate(_group(jaxpr.eqns)))):
        needed -= {var for eqn in joint_eqns for var in eqn.outvars}
        needed |= {a for eqn in joint_eqns for a in eqn.invars if isinstance(a, Var)}
        own_place = (*place, number)
        segment = _segment(jaxpr, work, joint_eqns, needed, topology, own_place)
        segments.append(segment)
        made = {var for eqn in work for var in eqn.outvars}
        needed = (needed - made) | set(segment.inputs)
    return Cut(closed, tuple(reversed(segments)))


BLOCKS = ("cond", "while", "scan")
"""The loops and branches of JAX."""


def programs_of_block(eqn: JaxprEqn) -> tuple[ClosedJaxpr, ...]:
    """Returns the branches of a cond, condition and body of a while, body of a scan."""
    params = eqn.params
    match eqn.primitive.name:
        case "cond":
            return tuple(params["branches"])
        case "while":
            return params["cond_jaxpr"], params["body_jaxpr"]
        case "scan":
            return (params["jaxpr"],)
    raise NotTraceable


def _group(eqns: Sequence[JaxprEqn]) -> list[tuple[list[JaxprEqn], list[JaxprEqn]]]:
    """Returns runs of work, each with what all replicas do together after it.

    Collectives that do not wait for each other are grouped.
    """
    groups: list[tuple[list[JaxprEqn], list[JaxprEqn]]] = [([], [])]
    for eqn in eqns:
        _, joint_eqns = groups[-1]
        made = {var for other in joint_eqns for var in other.outvars}
        is_block = hides_collective(eqn)
        if not is_block and not is_collective(eqn):
            if joint_eqns:
                groups.append(([], []))
            groups[-1][0].append(eqn)
        elif joint_eqns and (
            is_block
            or hides_collective(joint_eqns[0])
            or not made.isdisjoint(a for a in eqn.invars if isinstance(a, Var))
        ):
            groups.append(([], [eqn]))
        else:
            joint_eqns.append(eqn)
    return groups


def _segment(
    whole: Jaxpr,
    work: Sequence[JaxprEqn],
    joint_eqns: Sequence[JaxprEqn],
    needed: set[Var],
    topology: Topology,
    place: tuple[int, ...],
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
    jaxpr = rebuilt(whole, (), inputs, outputs, work)

    @jax.jit
    def piece(*values: Any) -> list[Any]:
        return jax.core.eval_jaxpr(jaxpr, (), *values)

    is_block = bool(joint_eqns) and hides_collective(joint_eqns[0])
    inside = programs_of_block(joint_eqns[0]) if is_block else ()
    return Segment(
        piece if work else None,
        inputs,
        outputs,
        tuple(joint_eqns),
        None if is_block else _exchange(tuple(joint_eqns), topology),
        tuple(cut(program, topology, place) for program in inside),
        place,
    )


def _exchange(eqns: tuple[JaxprEqn, ...], topology: Topology) -> Any:
    def body(*values: jax.Array) -> list[jax.Array]:
        given = iter(values)
        outputs: list[jax.Array] = []
        for eqn in eqns:
            inputs = [next(given).reshape(kind_of(atom)[0]) for atom in eqn.invars]
            outputs.extend(bind(eqn, inputs, eqn.params))
        return [jnp.atleast_1d(output) for output in outputs]

    split = PartitionSpec(AXIS)
    program = replica_program(topology, "an uneven step", body, split, split)
    return guarded(topology, "uneven step", program)


def _open_calls(closed: ClosedJaxpr, topology: Topology) -> ClosedJaxpr:
    """Returns the program with the calls that contain collectives inlined."""
    if not any(map(hides_collective, closed.jaxpr.eqns)):
        return closed

    def inline(eqn: JaxprEqn, inputs: list[Any]) -> list[Any] | None:
        called = called_jaxpr(eqn) if hides_collective(eqn) else None
        return None if called is None else evaluate(called, inputs, inline)

    return retraced(closed, inline, [(AXIS, topology.num_replicas)])


def hides_collective(eqn: JaxprEqn) -> bool:
    """Returns whether a collective is inside of this equation."""
    return any(has_collective(inner) for inner in inner_jaxprs(eqn))
