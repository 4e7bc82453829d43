"""Rewrites traced programs that contain a `GradientTape`.

In the trace, marks say where a tape starts and stops, and where a gradient is wanted.
Before the program is compiled, each wanted gradient is replaced by a reverse-mode
derivative of the equations between the marks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    JaxprEqn,
    Primitive,
    Values,
    Var,
    all_equations,
    bind,
    changed_params,
    initial_values,
    read,
    stand_ins,
)
from mirrax.run.gradients.eager_tape import derivatives, is_constant

mark_p = Primitive("tape_mark")
"""Where a tape starts or stops to record.

From `start` and `resume` on it records, from `pause` and `stop` on it does not. At
`start` it forgets what it has. At `past` it gets all that was computed before.
"""
mark_p.def_abstract_eval(lambda **_: jax.core.ShapedArray((), jnp.bool_))

source_p = Primitive("tape_source")
"""A detached value: gradients of its tape, or of all tapes, end here."""
source_p.def_abstract_eval(lambda aval, **_: aval)

gradient_p = Primitive("tape_gradient")
"""Where a gradient is wanted: of the first input with respect to the others."""
gradient_p.multiple_results = True
gradient_p.def_abstract_eval(
    lambda target, *sources, **_: [
        jax.core.ShapedArray(target.shape + source.shape, source.dtype)
        for source in sources
    ]
)

_TAPE = (mark_p, source_p, gradient_p)


def differentiate(
    closed: ClosedJaxpr, axis_env: Sequence[tuple[str, int]]
) -> ClosedJaxpr:
    """Returns the program with every wanted gradient replaced by a derivative."""
    if not any(eqn.primitive in _TAPE for eqn in all_equations(closed.jaxpr)):
        return closed

    def program(*inputs: Any) -> list[Any]:
        values, eqns = initial_values(closed, inputs), closed.jaxpr.eqns
        _evaluate(eqns, _Program(eqns, axis_env), values, {})
        return [read(values, atom) for atom in closed.jaxpr.outvars]

    return jax.make_jaxpr(program, axis_env=list(axis_env))(*stand_ins(closed.jaxpr))


class _Program(NamedTuple):
    """All equations of a program, of which a derivative evaluates some again."""

    eqns: Sequence[JaxprEqn]
    axis_env: Sequence[tuple[str, int]]


def _evaluate(
    eqns: Sequence[JaxprEqn], program: _Program, values: Values, changes: Values
) -> None:
    """Evaluates equations, and adds `changes` to what they compute."""
    for eqn in eqns:
        if eqn.primitive is gradient_p:
            _gradient(eqn, program, values, changes)
        elif eqn.primitive is mark_p:
            values[eqn.outvars[0]] = jnp.zeros((), jnp.bool_)
        elif eqn.primitive is source_p:
            values[eqn.outvars[0]] = read(values, eqn.invars[0])
        else:
            params = changed_params(
                eqn, lambda inner: differentiate(inner, program.axis_env)
            )
            inputs = [read(values, atom) for atom in eqn.invars]
            values.update(zip(eqn.outvars, bind(eqn, inputs, params), strict=True))
        for var in eqn.outvars:
            if var in changes:
                values[var] = values[var] + changes[var]


def _gradient(eqn: JaxprEqn, program: _Program, values: Values, outer: Values) -> None:
    """Evaluates one wanted gradient.

    What was recorded is evaluated again as a function of the sources; the values that
    it gives replace the first ones, so that XLA drops the first evaluation. A source
    that is computed from others gets a change of zero added, so that the gradient of
    those reaches through it. So does every source where the gradient of another tape
    is among what was recorded, which evaluates again what leads to that source.

    Args:
        outer: The changes of the gradients in which this one is evaluated.
    """
    target: Any = eqn.invars[0]
    sources: list[Any] = list(dict.fromkeys(eqn.invars[1:]))
    before = itertools.takewhile(lambda other: other is not eqn, program.eqns)
    everything = _recorded(before, eqn.params["tape"])
    recorded = _depending(everything, sources, target, eqn.params["tape"])
    made = [var for item in recorded for var in item.outvars]
    computed = set(made).intersection(sources)
    is_nested = any(item.primitive is gradient_p for item in recorded)
    changed = set(sources) if is_nested else computed

    def forward(given: list[Any]) -> tuple[Any, list[Any]]:
        inner, changes = dict(values), dict(outer)
        for source, value in zip(sources, given, strict=True):
            if source in changed:
                changes[source] = changes[source] + value if source in outer else value
            if source not in computed:
                is_whole = source not in changed
                inner[source] = value if is_whole else read(inner, source) + value
        _evaluate(recorded, program, inner, changes)
        return read(inner, target), [inner[var] for var in made]

    start = [
        jnp.zeros_like(value) if source in changed else value
        for source, value in ((s, read(values, s)) for s in sources)
    ]
    total, backward, results = jax.vjp(forward, start, has_aux=True)
    values.update(zip(made, results, strict=True))
    gradients = derivatives(total, lambda weights: backward(weights)[0])
    found = dict(zip(sources, gradients, strict=True))
    values.update((out, found[s]) for out, s in zip(eqn.outvars, eqn.invars[1:]))


def connected(
    eqns: Sequence[JaxprEqn], tape: int, target: Any, sources: Sequence[Any]
) -> set[Any]:
    """Returns those sources from which what a tape has recorded leads to the target."""
    kept = _depending(_recorded(eqns, tape), sources, target, tape)
    needed = {atom for eqn in kept for atom in eqn.invars if isinstance(atom, Var)}
    if isinstance(target, Var):
        needed.add(target)
    return needed.intersection(s for s in sources if isinstance(s, Var))


def _recorded(eqns: Iterable[JaxprEqn], tape: int) -> list[JaxprEqn]:
    """Returns what ran while the tape recorded, and its marks."""
    kept: list[JaxprEqn] = []
    is_kept = False
    eqns = list(eqns)
    for index, eqn in enumerate(eqns):
        if eqn.primitive is mark_p and eqn.params["tape"] == tape:
            is_kept = eqn.params["what"] in ("past", "start", "resume")
            if eqn.params["what"] == "start":
                kept.clear()
            elif eqn.params["what"] == "past":
                kept = eqns[:index]
            kept.append(eqn)
        elif is_kept:
            kept.append(eqn)
    return kept


def _depending(
    eqns: Sequence[JaxprEqn], sources: Sequence[Any], target: Any, tape: int
) -> list[JaxprEqn]:
    """Returns those equations that lead from the sources to the target.

    Marks stay, because gradients of tapes may be among the equations. Paths end at
    detached values.
    """
    reached = {source for source in sources if isinstance(source, Var)}
    forward = []
    for eqn in eqns:
        if eqn.primitive is mark_p:
            forward.append(eqn)
        elif not _ends(eqn, tape) and not reached.isdisjoint(_inputs(eqn)):
            forward.append(eqn)
            reached.update(eqn.outvars)
    needed = {target} if isinstance(target, Var) else set()
    kept = []
    for eqn in reversed(forward):
        if eqn.primitive is mark_p or not needed.isdisjoint(eqn.outvars):
            kept.append(eqn)
            needed.update(_inputs(eqn))
    return kept[::-1]


def _ends(eqn: JaxprEqn, tape: int) -> bool:
    if eqn.primitive is source_p:
        return eqn.params["tape"] in (None, tape)
    return is_constant(eqn.primitive, [out.aval for out in eqn.outvars])


def _inputs(eqn: JaxprEqn) -> list[Var]:
    return [atom for atom in eqn.invars if isinstance(atom, Var)]
