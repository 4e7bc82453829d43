"""What a `GradientTape` leaves in a traced program, until the trace is finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.interpreters import ad, batching, mlir

from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    Primitive,
    Var,
    all_equations,
    changed_params,
    identity_primitive,
    rebuilt,
)

renamed_p = identity_primitive("tape_renamed")
"""A value as another object: a tape tells by objects what was computed from what."""

_recomputed_p = Primitive("tape_recomputed")
"""Says that values, its first half of inputs, were computed again: its second half."""
_recomputed_p.multiple_results = True
_recomputed_p.def_impl(lambda *_: [])
_recomputed_p.def_abstract_eval(lambda *_: [])
mlir.register_lowering(_recomputed_p, lambda *_: [])
ad.primitive_jvps[_recomputed_p] = lambda *_: ([], [])
batching.primitive_batchers[_recomputed_p] = lambda *_: ([], [])


def mark_recomputed(old: Sequence[Any], new: Sequence[Any]) -> None:
    """Lets what follows use the `new` values, so that XLA computes them only once."""
    _recomputed_p.bind(*old, *new)


def without_marks(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Returns a traced program without what tapes have left in it."""
    jaxpr = closed.jaxpr
    marks = (renamed_p, _recomputed_p)
    if not any(eqn.primitive in marks for eqn in all_equations(jaxpr)):
        return closed
    latest: dict[Var, Any] = {}

    def replaced(atoms: Sequence[Any]) -> list[Any]:
        return [latest.get(x, x) if isinstance(x, Var) else x for x in atoms]

    eqns = []
    for eqn in jaxpr.eqns:
        given = replaced(eqn.invars)
        if eqn.primitive is renamed_p:
            latest[eqn.outvars[0]] = given[0]
        elif eqn.primitive is _recomputed_p:
            count = len(given) // 2
            pairs = zip(eqn.invars[:count], given[count:], strict=True)
            latest |= {x: y for x, y in pairs if isinstance(x, Var)}
        else:
            params = changed_params(eqn, without_marks)
            eqns.append(eqn.replace(invars=given, params=params))
    outputs = replaced(jaxpr.outvars)
    made = rebuilt(jaxpr, jaxpr.constvars, jaxpr.invars, outputs, eqns)
    return ClosedJaxpr(made, closed.consts)
