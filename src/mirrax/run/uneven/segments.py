"""Cuts a traced program at its collectives into segments that run on one device."""

from __future__ import annotations

import dataclasses
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
    Values,
    Var,
    bind,
    called_jaxpr,
    evaluate,
    inner_jaxprs,
    is_reference,
    kind_of,
    read,
    rebuilt,
    retraced,
)
from mirrax.collectives.worker_guard import guarded, replica_program
from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import AXIS, Topology
from mirrax.run.varying import has_collective, is_collective


@dataclasses.dataclass(frozen=True)
class Segment:
    """A piece of a program, and the collectives after it.

    Args:
        piece: The compiled piece; None if it is empty.
        inputs: What it needs.
        outputs: What it computes that is needed later.
        collectives: What all replicas do together after it.
        exchange: The collectives as a program over all replicas.
    """

    piece: Any
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    collectives: tuple[JaxprEqn, ...]
    exchange: Any

    def run(self, values: Values, device: jax.Device) -> list[Any]:
        """Computes the piece from `values`, and adds to them what is needed later.

        Returns the inputs of the collectives.
        """
        if self.piece is not None:
            with jax.default_device(device):
                made = self.piece(*(values[var] for var in self.inputs))
            values.update(zip(self.outputs, made, strict=True))
        return [read(values, atom) for eqn in self.collectives for atom in eqn.invars]

    def __str__(self) -> str:
        """What the replicas must agree on: the collectives and their shapes."""
        return ", ".join(
            f"{eqn.primitive.name} of {[kind_of(atom) for atom in eqn.invars]} "
            f"{describe_params(eqn)}"
            for eqn in self.collectives
        )


@dataclasses.dataclass(frozen=True)
class Cut:
    """A program, and the pieces it was cut into."""

    closed: ClosedJaxpr
    segments: tuple[Segment, ...]


def cut(closed: ClosedJaxpr, topology: Topology) -> Cut:
    """Returns the program in pieces.

    Raises `NotTraceable` if a collective stands where nothing can be cut, as in a loop.
    """
    closed = _open_calls(closed, topology)
    jaxpr = closed.jaxpr
    made_here = itertools.chain.from_iterable(eqn.outvars for eqn in jaxpr.eqns)
    has_references = any(map(is_reference, (*jaxpr.constvars, *made_here)))
    # One piece cannot hand a reference to another.
    if has_references or any(map(_hides_collective, jaxpr.eqns)):
        raise NotTraceable
    segments: list[Segment] = []
    needed = {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    for work, collectives in reversed(_group(jaxpr.eqns)):
        needed -= {var for eqn in collectives for var in eqn.outvars}
        needed |= {a for eqn in collectives for a in eqn.invars if isinstance(a, Var)}
        segment = _segment(jaxpr, work, collectives, needed, topology)
        segments.append(segment)
        made = {var for eqn in work for var in eqn.outvars}
        needed = (needed - made) | set(segment.inputs)
    return Cut(closed, tuple(reversed(segments)))


def _group(
    eqns: Sequence[JaxprEqn],
) -> list[tuple[list[JaxprEqn], list[JaxprEqn]]]:
    """Returns runs of work, each with the collectives after it.

    Collectives that do not wait for each other are grouped.
    """
    groups: list[tuple[list[JaxprEqn], list[JaxprEqn]]] = [([], [])]
    for eqn in eqns:
        made = {var for other in groups[-1][1] for var in other.outvars}
        waits = any(isinstance(atom, Var) and atom in made for atom in eqn.invars)
        if made and (waits or not is_collective(eqn)):
            groups.append(([], []))
        groups[-1][is_collective(eqn)].append(eqn)
    return groups


def _segment(
    whole: Jaxpr,
    work: Sequence[JaxprEqn],
    collectives: Sequence[JaxprEqn],
    needed: set[Var],
    topology: Topology,
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

    return Segment(
        piece if work else None,
        inputs,
        outputs,
        tuple(collectives),
        _exchange(tuple(collectives), topology),
    )


def _exchange(eqns: tuple[JaxprEqn, ...], topology: Topology) -> Any:
    """Returns collectives as a program over all replicas."""

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
    if not any(map(_hides_collective, closed.jaxpr.eqns)):
        return closed

    def inline(eqn: JaxprEqn, inputs: list[Any]) -> list[Any] | None:
        called = called_jaxpr(eqn) if _hides_collective(eqn) else None
        return None if called is None else evaluate(called, inputs, inline)

    return retraced(closed, inline, [(AXIS, topology.num_replicas)])


def _hides_collective(eqn: JaxprEqn) -> bool:
    """Returns whether a collective is inside of this equation."""
    return any(has_collective(inner) for inner in inner_jaxprs(eqn))
