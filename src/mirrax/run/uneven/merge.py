"""Merges the traces of replicas whose parts have different shapes into one program.

Replicas with parts of the same shapes share a trace. What all traces compute alike,
from values of the same shape, is in the program once. The rest is in branches of a
`switch`, one for each trace. There is a switch before each collective, which all
replicas reach together. Values of different shapes are padded where they enter or leave
a switch.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mirrax._jax.jaxpr_text import describe_lines, describe_params, find_constants
from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    all_equations,
    bind,
    changed_params,
    initial_values,
    inlined,
    inner_jaxprs,
    inner_programs,
    is_reference,
    kind_of,
)
from mirrax.collectives.spmd import fitted
from mirrax.collectives.worker_exchange import digest
from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import AXIS
from mirrax.run.varying import has_collective, is_collective


def merged(programs: Sequence[ClosedJaxpr], program_of: Sequence[int]) -> ClosedJaxpr:
    """Returns one program for all replicas, or raises `NotTraceable`.

    Its inputs and outputs have the largest shape that they have in any of the programs.

    Args:
        program_of: For each replica, the index of its program.
    """
    if len(programs) == 1:
        return programs[0]
    axis_env = [(AXIS, len(program_of))]
    opened = [inlined(each, axis_env, _hides_collective) for each in programs]
    traces = _traces_of(opened)
    given = _largest_of_each([each.jaxpr.invars for each in opened])
    made = _largest_of_each([each.jaxpr.outvars for each in opened])

    def program(*inputs: Any) -> list[Any]:
        outputs = _Merge(traces, program_of).outputs(inputs)
        pairs = zip(made, outputs, strict=True)
        return [_with_weak_type_of(like, value) for like, value in pairs]

    # The programs may have enabled 64 bits for some of their values.
    with jax.enable_x64(True):
        return jax.make_jaxpr(program, axis_env=axis_env)(*given)


_Ids = collections.defaultdict[Hashable, int]
"""A number for each key; equal keys share it."""


@dataclasses.dataclass
class _Step:
    """What one trace computes up to a collective.

    Attributes:
        own: Equations that not all traces have.
        shared: Equations that all traces have, with the same inputs.
        kept: What later steps need of `own`, by id.
        joint: What all replicas then do together: collectives, and loops and branches
            with collectives inside, which do not wait for each other. The last step has
            none.
        wanted: The inputs of `joint`; in the last step the outputs of the program.
    """

    own: list[JaxprEqn] = dataclasses.field(default_factory=list)
    shared: list[JaxprEqn] = dataclasses.field(default_factory=list)
    kept: dict[int, Var] = dataclasses.field(default_factory=dict)
    joint: list[JaxprEqn] = dataclasses.field(default_factory=list)
    wanted: list[Any] = dataclasses.field(default_factory=list)


class _Trace:
    """One of the programs, in steps.

    Values with the same id are equal, also those of different traces.
    """

    def __init__(self, closed: ClosedJaxpr, ids: _Ids) -> None:
        jaxpr = closed.jaxpr
        made_here = itertools.chain.from_iterable(eqn.outvars for eqn in jaxpr.eqns)
        if any(map(is_reference, itertools.chain(jaxpr.constvars, made_here))):
            raise NotTraceable  # A switch cannot return a reference.
        self.closed = closed
        self.steps = _steps_of(jaxpr)
        self.equation_ids: dict[int, int] = {}
        self._ids = ids
        self._value_ids: dict[Var, int] = {}
        for place, var in enumerate(jaxpr.invars):
            self._value_ids[var] = ids["input", place, kind_of(var)]
        for var, value in zip(jaxpr.constvars, closed.consts, strict=True):
            self._value_ids[var] = ids["constant", kind_of(var), digest(value)]
        for step_index, step in enumerate(self.steps):
            for place, eqn in enumerate(step.own):
                # Two equal effects are not one.
                effect = (step_index, place) if eqn.effects else None
                self._add(eqn, _text_of(eqn, ids), effect, *map(self.id_of, eqn.invars))
            for place, eqn in enumerate(step.joint):
                self._add(eqn, "joint", step_index, place)

    def id_of(self, atom: Any) -> int:
        if isinstance(atom, Var):
            return self._value_ids[atom]
        return self._ids["constant", kind_of(atom), digest(atom.val)]

    def share(self, equation_ids: set[int]) -> None:
        """Separates the equations that all traces have from its own."""
        needed: set[Any] = set()
        for step in reversed(self.steps):
            work, step.own = step.own, []
            for eqn in work:
                is_shared = self.equation_ids[id(eqn)] in equation_ids
                (step.shared if is_shared else step.own).append(eqn)
            made = (var for eqn in step.own for var in eqn.outvars)
            step.kept = {self.id_of(var): var for var in made if var in needed}
            used = itertools.chain(step.wanted, *(eqn.invars for eqn in work))
            needed.update(atom for atom in used if isinstance(atom, Var))

    def _add(self, eqn: JaxprEqn, *key: Hashable) -> None:
        own = self.equation_ids[id(eqn)] = self._ids[key]
        for place, var in enumerate(eqn.outvars):
            self._value_ids[var] = self._ids[own, place, kind_of(var)]


def _traces_of(programs: Sequence[ClosedJaxpr]) -> list[_Trace]:
    """Returns the programs as traces, or raises if they differ in their collectives."""
    ids: _Ids = collections.defaultdict(itertools.count().__next__)
    traces = [_Trace(program, ids) for program in programs]
    if len({str([_describe(step.joint) for step in t.steps]) for t in traces}) > 1:
        raise NotTraceable  # The eager engine says what differs.
    shared = set.intersection(*(set(t.equation_ids.values()) for t in traces))
    for trace in traces:
        trace.share(shared)
    return traces


class _Merge:
    """The values of all traces, by id, while their program is traced."""

    def __init__(self, traces: Sequence[_Trace], program_of: Sequence[int]) -> None:
        self._traces = traces
        self._program_of = program_of
        self._values: dict[int, Any] = {}

    def outputs(self, inputs: Sequence[Any]) -> list[Any]:
        for trace in self._traces:
            for var, value in initial_values(trace.closed, inputs).items():
                self._values[trace.id_of(var)] = value
        *before, last = zip(*(trace.steps for trace in self._traces), strict=True)
        for steps in before:
            values = iter(self._wanted(steps))
            for eqns in zip(*(step.joint for step in steps), strict=True):
                given = [next(values) for _ in eqns[0].invars]
                outputs = _bind_together(eqns, given, self._program_of)
                for trace, eqn in zip(self._traces, eqns, strict=True):
                    ids = map(trace.id_of, eqn.outvars)
                    self._values.update(zip(ids, outputs, strict=True))
        return self._wanted(last)

    def _wanted(self, steps: Sequence[_Step]) -> list[Any]:
        """Computes a step, given that of each trace; returns what is wanted of it."""
        traces, values = self._traces, self._values
        _evaluate(traces[0], steps[0].shared, values)
        columns = list(zip(*(step.wanted for step in steps), strict=True))
        differs = [
            len({t.id_of(x) for t, x in zip(traces, column, strict=True)}) > 1
            for column in columns
        ]
        differing = [*itertools.compress(columns, differs)]
        shapes = [_largest(column).shape for column in differing]
        kept = {key: var for step in steps for key, var in step.kept.items()}

        def branch(index: int) -> tuple[list[Any], dict[int, Any]]:
            trace, known = traces[index], dict(values)
            _evaluate(trace, steps[index].own, known)
            made = [
                fitted(_read(trace, column[index], known), shape)
                for column, shape in zip(differing, shapes, strict=True)
            ]
            # What other traces keep is never read by the replicas of this one.
            return made, {
                key: known[key] if key in known else jnp.zeros(*kind_of(var))
                for key, var in kept.items()
            }

        made: list[Any] = []
        if differing or kept or any(eqn.effects for step in steps for eqn in step.own):
            own_index = jnp.asarray(self._program_of, jnp.int32)[lax.axis_index(AXIS)]
            branches = [functools.partial(branch, i) for i in range(len(traces))]
            made, new = lax.switch(own_index, branches)
            values.update(new)
        found = iter(made)
        return [
            next(found) if is_own else _read(traces[0], column[0], values)
            for column, is_own in zip(columns, differs, strict=True)
        ]


def _evaluate(trace: _Trace, eqns: Iterable[JaxprEqn], values: dict[int, Any]) -> None:
    for eqn in eqns:
        given = [_read(trace, atom, values) for atom in eqn.invars]
        outputs = bind(eqn, given, eqn.params)
        values.update(zip(map(trace.id_of, eqn.outvars), outputs, strict=True))


def _read(trace: _Trace, atom: Any, values: dict[int, Any]) -> Any:
    if not isinstance(atom, Var):
        return jnp.asarray(atom.val, atom.aval.dtype)
    return fitted(values[trace.id_of(atom)], kind_of(atom)[0])


def _steps_of(jaxpr: Jaxpr) -> list[_Step]:
    """Returns the equations in steps, each as early as what they need is known."""
    steps = [_Step()]
    known_at: dict[Any, int] = {}
    for eqn in jaxpr.eqns:
        given = [atom for atom in eqn.invars if isinstance(atom, Var)]
        step_index = max((known_at.get(atom, 0) for atom in given), default=0)
        is_joint = is_collective(eqn) or _hides_collective(eqn)
        if is_joint and step_index == len(steps) - 1:
            steps.append(_Step())
        (steps[step_index].joint if is_joint else steps[step_index].own).append(eqn)
        known_at |= dict.fromkeys(eqn.outvars, step_index + is_joint)
    for step in steps:
        step.wanted = [atom for eqn in step.joint for atom in eqn.invars]
    steps[-1].wanted = list(jaxpr.outvars)
    return steps


def _describe(joint: Sequence[JaxprEqn]) -> str:
    """Returns what must be the same in all traces, but for what is inside a block."""
    found = []
    for eqn in joint:
        inside = len([*inner_programs(eqn)]), len(eqn.invars), len(eqn.outvars)
        given = inside if _hides_collective(eqn) else [*map(kind_of, eqn.invars)]
        found.append((eqn.primitive.name, given, describe_params(eqn)))
    return str(found)


def _bind_together(
    eqns: Sequence[JaxprEqn], given: list[Any], program_of: Sequence[int]
) -> list[Any]:
    """Returns the outputs of the same collective, loop or branch in all traces."""
    first = eqns[0]
    if is_collective(first):
        return bind(first, given, first.params)
    if first.primitive.name not in ("cond", "while", "scan"):
        raise NotTraceable
    columns = zip(*map(inner_programs, eqns), strict=True)
    inside = iter([merged(programs, program_of) for programs in columns])
    return bind(first, given, changed_params(first, lambda _: next(inside)))


def _hides_collective(eqn: JaxprEqn) -> bool:
    """Returns whether a collective is inside of this equation."""
    return any(has_collective(inner) for inner in inner_jaxprs(eqn))


def _largest_of_each(rows: Sequence[Sequence[Any]]) -> list[jax.ShapeDtypeStruct]:
    return [_largest(column) for column in zip(*rows, strict=True)]


def _largest(atoms: Sequence[Any]) -> jax.ShapeDtypeStruct:
    """Returns what stands for values of these shapes, padded to the largest."""
    shapes, dtypes = zip(*map(kind_of, atoms), strict=True)
    if len(set(map(len, shapes))) > 1 or len(set(dtypes)) > 1:
        raise NotTraceable
    return jax.ShapeDtypeStruct(
        tuple(map(max, zip(*shapes, strict=True))),
        dtypes[0],
        weak_type=all(atom.aval.weak_type for atom in atoms),
    )


def _with_weak_type_of(like: jax.ShapeDtypeStruct, value: jax.Array) -> jax.Array:
    if value.aval.weak_type == like.weak_type:
        return value
    convert: Any = lax.convert_element_type_p.bind
    return convert(
        value, new_dtype=value.dtype, weak_type=like.weak_type, sharding=None
    )


def _text_of(eqn: JaxprEqn, ids: _Ids) -> str:
    """Returns a text that is equal only for equations that do the same."""
    texts = [eqn.primitive.name, describe_params(eqn), *_identities(eqn, ids)]
    for inner in inner_programs(eqn):
        for inner_eqn in all_equations(inner.jaxpr):
            texts += _identities(inner_eqn, ids)
        texts += [line for line, _ in describe_lines(inner.jaxpr)]
        texts += [digest(value) for _, value in find_constants(inner)]
    return "\n".join(texts)


def _identities(eqn: JaxprEqn, ids: _Ids) -> Iterator[str]:
    """Yields what tells parameters apart whose text is equal.

    Text leaves out what a function closes over, and most of a large array.
    """
    # JAX makes their rules anew in each trace, and they have had their effect.
    if eqn.primitive.name in ("custom_jvp_call", "custom_vjp_call"):
        return
    for leaf in jax.tree.leaves(list(eqn.params.values())):
        if isinstance(leaf, np.ndarray | jax.Array):
            yield digest(leaf)
        elif not isinstance(leaf, ClosedJaxpr | Jaxpr):
            # By equality: different ones may have the same hash.
            key = (type(leaf), leaf) if isinstance(leaf, Hashable) else id(leaf)
            yield str(ids[key])
