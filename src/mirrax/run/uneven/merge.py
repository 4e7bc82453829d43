"""Merges the traces of replicas whose parts have different shapes into one program.

Replicas with parts of the same shapes share a trace. What all traces compute alike,
from values of the same shape, is in the program once. The rest is in branches of a
`switch`, one for each trace. There is a switch before each collective, which all
replicas reach together. Values of different shapes are padded where they enter or leave
a switch.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mirrax._jax.jaxpr_text import describe_lines, describe_params, find_constants
from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Values,
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


def merged(programs: Sequence[ClosedJaxpr], numbers: Sequence[int]) -> ClosedJaxpr:
    """Returns one program for all replicas, or raises `NotTraceable`.

    Its inputs and outputs have the largest shape that they have in any of the programs.

    Args:
        numbers: For each replica, the number of its program.
    """
    if len(programs) == 1:
        return programs[0]
    axis_env = [(AXIS, len(numbers))]
    opened = [inlined(each, axis_env, _hides_collective) for each in programs]
    given, made = (
        [_largest(column) for column in zip(*rows, strict=True)]
        for rows in (
            [each.jaxpr.invars for each in opened],
            [each.jaxpr.outvars for each in opened],
        )
    )

    def program(*inputs: Any) -> list[Any]:
        known: _Known = {}
        traces = [_Trace(each, inputs, known) for each in opened]
        outputs = _Merge(traces, numbers).outputs()
        return [
            _with_weak_type_of(like, value)
            for like, value in zip(made, outputs, strict=True)
        ]

    return jax.make_jaxpr(program, axis_env=axis_env)(*given)


_Known = dict[Any, int]
"""A number for each parameter of an equation; equal ones share it."""


class _Step(NamedTuple):
    """Equations of one replica, and what all replicas do together after them.

    That is collectives, and loops and branches with collectives inside, which do not
    wait for each other. The last step ends without.
    """

    work: list[JaxprEqn]
    joint: list[JaxprEqn]


class _Trace:
    """One of the programs.

    Attributes:
        values: The values so far, but for those that all traces share.
        digests: How each value, and each equation by its id, is computed.
        last_uses: The number of the last step that uses a value.
    """

    def __init__(
        self, closed: ClosedJaxpr, inputs: Sequence[Any], known: _Known
    ) -> None:
        self.jaxpr = jaxpr = closed.jaxpr
        made_here = itertools.chain.from_iterable(eqn.outvars for eqn in jaxpr.eqns)
        if any(map(is_reference, itertools.chain(jaxpr.constvars, made_here))):
            raise NotTraceable  # A switch cannot return a reference.
        self.values: Values = initial_values(closed, inputs)
        self.steps = _steps_of(jaxpr.eqns)
        self.digests: dict[Any, str] = {}
        self.last_uses: dict[Any, int] = {}
        for index, var in enumerate(jaxpr.invars):
            self.digests[var] = f"input {index} {kind_of(var)}"
        for var, value in zip(jaxpr.constvars, closed.consts, strict=True):
            self.digests[var] = digest(value)
        for number, (work, joint) in enumerate(self.steps):
            for place, eqn in enumerate(work):
                # Two equal effects are not one.
                effect = f"effect {number} {place}" if eqn.effects else ""
                given = map(self.digest_of, eqn.invars)
                self._add(eqn, number, [_text_of(eqn, known), effect, *given])
            for place, eqn in enumerate(joint):
                self._add(eqn, number, [f"joint {number} {place}"])
        self._use(jaxpr.outvars, len(self.steps) - 1)

    def digest_of(self, atom: Any) -> str:
        return self.digests[atom] if isinstance(atom, Var) else digest(atom.val)

    def _add(self, eqn: JaxprEqn, number: int, texts: Iterable[str]) -> None:
        total = hashlib.blake2b("\n".join(texts).encode(), digest_size=16)
        own = self.digests[id(eqn)] = total.hexdigest()
        for index, var in enumerate(eqn.outvars):
            self.digests[var] = f"{own} {index} {kind_of(var)}"
        self._use(eqn.invars, number)

    def _use(self, atoms: Iterable[Any], number: int) -> None:
        self.last_uses |= {atom: number for atom in atoms if isinstance(atom, Var)}


class _Merge:
    """The values of all traces, while their program is traced."""

    def __init__(self, traces: Sequence[_Trace], numbers: Sequence[int]) -> None:
        self._traces = traces
        self._numbers = numbers
        self._alike = set.intersection(*(set(t.digests.values()) for t in traces))
        # What all traces compute alike, by its digest.
        self._shared: dict[str, Any] = {}

    def outputs(self) -> list[Any]:
        texts = {str([_describe(step.joint) for step in t.steps]) for t in self._traces}
        if len(texts) > 1:
            raise NotTraceable  # The eager engine says what differs.
        *before, last = range(len(self._traces[0].steps))
        for number in before:
            joint = [trace.steps[number].joint for trace in self._traces]
            wanted = [[a for eqn in eqns for a in eqn.invars] for eqns in joint]
            given = iter(self._computed(number, wanted))
            for eqns in zip(*joint, strict=True):
                outputs = _bind_together(eqns, given, self._numbers)
                for trace, eqn in zip(self._traces, eqns, strict=True):
                    trace.values.update(zip(eqn.outvars, outputs, strict=True))
        return self._computed(last, [trace.jaxpr.outvars for trace in self._traces])

    def _computed(self, number: int, wanted: Sequence[Sequence[Any]]) -> list[Any]:
        """Returns what is wanted of each trace after the work of a step."""
        traces = self._traces
        self._share(number)
        works = [
            [
                eqn
                for eqn in t.steps[number].work
                if t.digests[id(eqn)] not in self._shared
            ]
            for t in traces
        ]
        kept = [
            [v for eqn in work for v in eqn.outvars if t.last_uses.get(v, -1) > number]
            for t, work in zip(traces, works, strict=True)
        ]
        columns = list(zip(*wanted, strict=True))
        differing = [column for column in columns if not self._are_alike(column)]
        largest = [_largest(column).shape for column in differing]

        def branch(index: int) -> Callable[[], Any]:
            trace = traces[index]

            def run() -> Any:
                values = dict(trace.values)
                for eqn in works[index]:
                    values.update(self._outputs_of(eqn, trace, values))
                made = [
                    fitted(self._read(column[index], trace, values), shape)
                    for column, shape in zip(differing, largest, strict=True)
                ]
                own = [
                    [values[v] if i == index else jnp.zeros(*kind_of(v)) for v in each]
                    for i, each in enumerate(kept)
                ]
                return made, own

            return run

        has_effects = any(eqn.effects for work in works for eqn in work)
        if not (differing or any(kept) or has_effects):
            return [
                self._read(column[0], traces[0], traces[0].values) for column in columns
            ]
        made, own = lax.switch(
            jnp.asarray(self._numbers)[lax.axis_index(AXIS)],
            [branch(index) for index in range(len(traces))],
        )
        for trace, variables, values in zip(traces, kept, own, strict=True):
            trace.values.update(zip(variables, values, strict=True))
        found = iter(made)
        return [
            self._read(column[0], traces[0], traces[0].values)
            if self._are_alike(column)
            else next(found)
            for column in columns
        ]

    def _share(self, number: int) -> None:
        """Computes once what all traces compute alike."""
        first = self._traces[0]
        for eqn in first.steps[number].work:
            own = first.digests[id(eqn)]
            if own in self._alike:
                self._shared[own] = True
                for var, value in self._outputs_of(eqn, first, first.values):
                    self._shared[first.digests[var]] = value

    def _are_alike(self, atoms: Sequence[Any]) -> bool:
        """Returns whether values, one for each trace, are one."""
        pairs = zip(self._traces, atoms, strict=True)
        return len({trace.digest_of(atom) for trace, atom in pairs}) == 1

    def _outputs_of(
        self, eqn: JaxprEqn, trace: _Trace, values: Values
    ) -> Iterator[tuple[Var, Any]]:
        given = [self._read(atom, trace, values) for atom in eqn.invars]
        return zip(eqn.outvars, bind(eqn, given, eqn.params), strict=True)

    def _read(self, atom: Any, trace: _Trace, values: Values) -> Any:
        if not isinstance(atom, Var):
            return jnp.asarray(atom.val, atom.aval.dtype)
        value = self._shared.get(trace.digests[atom])
        return fitted(values[atom], kind_of(atom)[0]) if value is None else value


def _steps_of(eqns: Sequence[JaxprEqn]) -> list[_Step]:
    """Returns the equations in steps, each as early as what they need is known."""
    steps = [_Step([], [])]
    known_at: dict[Any, int] = {}
    for eqn in eqns:
        given = [atom for atom in eqn.invars if isinstance(atom, Var)]
        number = max((known_at.get(atom, 0) for atom in given), default=0)
        is_joint = is_collective(eqn) or _hides_collective(eqn)
        if is_joint and number == len(steps) - 1:
            steps.append(_Step([], []))
        (steps[number].joint if is_joint else steps[number].work).append(eqn)
        known_at |= dict.fromkeys(eqn.outvars, number + is_joint)
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
    eqns: Sequence[JaxprEqn], inputs: Iterator[Any], numbers: Sequence[int]
) -> list[Any]:
    """Returns the outputs of the same collective, loop or branch in all traces."""
    first = eqns[0]
    given = [next(inputs) for _ in first.invars]
    if is_collective(first):
        return bind(first, given, first.params)
    if first.primitive.name not in ("cond", "while", "scan"):
        raise NotTraceable
    columns = zip(*map(inner_programs, eqns), strict=True)
    inside = iter([merged(programs, numbers) for programs in columns])
    return bind(first, given, changed_params(first, lambda _: next(inside)))


def _hides_collective(eqn: JaxprEqn) -> bool:
    """Returns whether a collective is inside of this equation."""
    return any(has_collective(inner) for inner in inner_jaxprs(eqn))


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


def _text_of(eqn: JaxprEqn, known: _Known) -> str:
    """Returns a text that is equal only for equations that do the same."""
    texts = [eqn.primitive.name, describe_params(eqn), *_identities(eqn, known)]
    for inner in inner_programs(eqn):
        for inner_eqn in all_equations(inner.jaxpr):
            texts += _identities(inner_eqn, known)
        texts += [line for line, _ in describe_lines(inner.jaxpr)]
        texts += [digest(value) for _, value in find_constants(inner)]
    return "\n".join(texts)


def _identities(eqn: JaxprEqn, known: _Known) -> Iterator[str]:
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
            yield str(known.setdefault(key, len(known)))
