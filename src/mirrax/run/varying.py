"""Finds which values of a traced program vary between replicas.

The program is traced once for all replicas. A value is mirrored if it depends only on
mirrored inputs and on full collectives; all else varies. Control flow counts: what is
computed under a condition that varies, varies too. Variables that all replicas share
cannot be assigned what varies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirrax._jax.jaxprs import (
    CALLBACKS,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    all_equations,
    called_jaxpr,
    inner_jaxprs,
    is_reference,
    source_of,
)
from mirrax.collectives.spmd import promise_p
from mirrax.collectives.worker_all_reduce import sum_p
from mirrax.devices.topology import AXIS
from mirrax.errors import VaryingError
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Variable

_COMBINING = {"psum", "psum_invariant", "pmax", "pmin", "all_gather", sum_p.name}
_OTHER_COLLECTIVES = {"all_to_all", "ppermute", "reduce_scatter", "psum_scatter"}
# Vary whatever their inputs are.
_ALWAYS_VARYING = {"axis_index", "rng_uniform", *CALLBACKS}


def find_varying(jaxpr: Jaxpr, inputs: Sequence[bool]) -> list[bool]:
    """Returns for each output whether it varies, given which inputs do.

    Raises if a collective stands where only some replicas would reach it.
    """
    varying = varying_values(jaxpr, inputs)
    return [
        isinstance(atom, Var) and varying.get(atom, False) for atom in jaxpr.outvars
    ]


def varying_values(jaxpr: Jaxpr, inputs: Sequence[bool]) -> dict[Var, bool]:
    """Returns for each value of a program whether it varies, given which inputs do."""
    varying: dict[Var, bool] = dict(zip(jaxpr.invars, inputs, strict=True))

    def of(atoms: Sequence[Any]) -> list[bool]:
        return [not isinstance(a, Literal) and varying.get(a, False) for a in atoms]

    for equation in jaxpr.eqns:
        if any(map(is_reference, equation.invars)):
            varying.update(_references(equation, of(equation.invars)))
        varying.update(
            zip(equation.outvars, _outputs(equation, of(equation.invars)), strict=True)
        )
    return varying


def _references(equation: JaxprEqn, inputs: list[bool]) -> dict[Var, bool]:
    """Returns whether what an equation may write to its references varies."""
    varies = any(inputs) or _is_always_varying_inside(equation)
    return {
        atom: varies
        for atom in equation.invars
        if isinstance(atom, Var) and is_reference(atom)
    }


def _is_always_varying_inside(equation: JaxprEqn) -> bool:
    return any(
        inner_equation.primitive.name in _ALWAYS_VARYING
        for inner in inner_jaxprs(equation)
        for inner_equation in all_equations(inner)
    )


def refuse_varying_writes(
    variables: Sequence[Variable], varying: Sequence[bool]
) -> None:
    """Raises if replicas would assign different values to a variable they share."""
    for variable, varies in zip(variables, varying, strict=False):
        if varies and not isinstance(variable, SyncOnReadVariable):
            raise VaryingError(
                f"Variable '{variable.name}' must be assigned the same value by every "
                "replica. Received: a value that differs between replicas. Combine it "
                "first (`get_replica_context().all_reduce`), or create the variable "
                "with an `aggregation` (SUM, MEAN, ONLY_FIRST_REPLICA) or with "
                "`synchronization=ON_READ`."
            )


def is_collective(equation: JaxprEqn) -> bool:
    """Returns whether this equation itself is a collective over replicas."""
    name = equation.primitive.name
    return name in (_COMBINING | _OTHER_COLLECTIVES) and AXIS in _axes(equation)


def has_collective(jaxpr: Jaxpr) -> bool:
    """Returns whether this program has a collective over replicas, at any depth."""
    return any(is_collective(equation) for equation in all_equations(jaxpr))


def _outputs(equation: JaxprEqn, inputs: list[bool]) -> list[bool]:
    count = len(equation.outvars)
    name = equation.primitive.name
    if equation.primitive is promise_p:
        return [False]
    if name in _COMBINING and AXIS in _axes(equation):
        return [equation.params.get("axis_index_groups") is not None] * count
    if name in _ALWAYS_VARYING or is_collective(equation):
        return [True] * count
    if name == "cond":
        return _of_cond(equation, inputs)
    if name == "while":
        return _of_while(equation, inputs)
    if name == "scan":
        return _of_scan(equation, inputs)
    called = called_jaxpr(equation)
    if called is not None:
        return find_varying(called.jaxpr, inputs)
    return [any(inputs) or _is_always_varying_inside(equation)] * count


def _of_cond(equation: JaxprEqn, inputs: list[bool]) -> list[bool]:
    predicate, operands = inputs[0], inputs[1:]
    branches = [branch.jaxpr for branch in equation.params["branches"]]
    if predicate:
        for branch in branches:
            _refuse_collectives(branch, "a branch of cond or switch")
    outputs = [find_varying(branch, operands) for branch in branches]
    return [predicate or any(column) for column in zip(*outputs, strict=True)]


def _of_while(equation: JaxprEqn, inputs: list[bool]) -> list[bool]:
    parameters = equation.params
    num_cond, num_body = parameters["cond_nconsts"], parameters["body_nconsts"]
    cond_consts = inputs[:num_cond]
    body_consts = inputs[num_cond : num_cond + num_body]
    carry = inputs[num_cond + num_body :]
    cond, body = parameters["cond_jaxpr"].jaxpr, parameters["body_jaxpr"].jaxpr
    while True:
        (predicate,) = find_varying(cond, cond_consts + carry)
        after = find_varying(body, body_consts + carry)
        new = [a or b or predicate for a, b in zip(carry, after, strict=True)]
        if new == carry:
            break
        carry = new
    if predicate:
        _refuse_collectives(cond, "the condition of while_loop")
        _refuse_collectives(body, "the body of while_loop")
    return carry


def _of_scan(equation: JaxprEqn, inputs: list[bool]) -> list[bool]:
    parameters = equation.params
    num_consts, num_carry = parameters["num_consts"], parameters["num_carry"]
    consts = inputs[:num_consts]
    carry = inputs[num_consts : num_consts + num_carry]
    sequences = inputs[num_consts + num_carry :]
    body = parameters["jaxpr"].jaxpr
    while True:
        outputs = find_varying(body, consts + carry + sequences)
        new = [a or b for a, b in zip(carry, outputs[:num_carry], strict=True)]
        if new == carry:
            return carry + outputs[num_carry:]
        carry = new


def _refuse_collectives(jaxpr: Jaxpr, place: str) -> None:
    for equation in all_equations(jaxpr):
        if is_collective(equation):
            raise VaryingError(
                "All replicas must reach a collective. Received: "
                f"{equation.primitive.name} at {source_of(equation)}, in "
                f"{place} whose condition differs between replicas. Combine the "
                "condition first (`all_reduce`), or take the collective out."
            )


def _axes(equation: JaxprEqn) -> tuple[Any, ...]:
    axes = equation.params.get("axes", equation.params.get("axis_name", ()))
    return tuple(axes) if isinstance(axes, tuple | list) else (axes,)
