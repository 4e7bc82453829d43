"""Walks through, evaluates and rebuilds jaxprs."""

from __future__ import annotations

import os
import pathlib
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from mirrax._jax.jaxpr_types import ClosedJaxpr as ClosedJaxpr
from mirrax._jax.jaxpr_types import Jaxpr as Jaxpr
from mirrax._jax.jaxpr_types import JaxprEqn as JaxprEqn
from mirrax._jax.jaxpr_types import Literal as Literal
from mirrax._jax.jaxpr_types import Primitive as Primitive
from mirrax._jax.jaxpr_types import Var as Var

_MIRRAX = f"{pathlib.Path(__file__).parents[1]}{os.sep}"
_NOT_USER_CODE = (
    f"{pathlib.Path(jax.__file__).parent}{os.sep}",
    sysconfig.get_path("stdlib"),
)


def source_of(equation: JaxprEqn) -> str:
    """Returns where in the user's program an equation was traced."""
    for file, line, function in _user_frames(equation):
        if not file.startswith(_MIRRAX):
            return f"{file}:{line} ({function})"
    return "an unknown place"


def places_of(equation: JaxprEqn) -> list[str]:
    """Returns file:line of the frames an equation was traced in, innermost first."""
    return [f"{file}:{line}" for file, line, _ in _user_frames(equation)]


def _user_frames(equation: JaxprEqn) -> Iterator[tuple[str, int, str]]:
    """Yields file, line and function outside of JAX, innermost first."""
    traceback: Any = equation.source_info.traceback
    if traceback is None:
        return
    for code, offset in zip(*traceback.raw_frames(), strict=True):
        if not code.co_filename.startswith(_NOT_USER_CODE):
            line = traceback.code_addr2line(code, offset)
            yield code.co_filename, line, code.co_qualname


_CALLS = {
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "remat",
    "remat2",
    "checkpoint",
    "custom_jvp_call",
    "custom_vjp_call",
}

Values = dict[Var, Any]


def all_equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Yields the equations of a jaxpr and of all jaxprs inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in inner_jaxprs(equation):
            yield from all_equations(inner)


def inner_jaxprs(equation: JaxprEqn) -> Iterator[Jaxpr]:
    """Yields the jaxprs among the parameters of an equation."""
    for closed in inner_programs(equation):
        yield closed.jaxpr


def inner_programs(equation: JaxprEqn) -> Iterator[ClosedJaxpr]:
    """Yields the closed jaxprs among the parameters of an equation."""
    for parameter in equation.params.values():
        for item in parameter if isinstance(parameter, tuple | list) else (parameter,):
            if isinstance(item, ClosedJaxpr):
                yield item
            elif isinstance(item, Jaxpr):
                yield ClosedJaxpr(item, ())


def called_jaxpr(equation: JaxprEqn) -> ClosedJaxpr | None:
    """Returns the jaxpr that a jit, remat or similar call runs, else None."""
    if equation.primitive.name not in _CALLS:
        return None
    parameters = equation.params
    called = parameters.get("jaxpr") or parameters.get("call_jaxpr")
    if isinstance(called, Jaxpr):
        called = ClosedJaxpr(called, ())
    if called is None or len(called.jaxpr.invars) != len(equation.invars):
        return None
    return called


def initial_values(closed: ClosedJaxpr, inputs: Any) -> Values:
    """Returns the values of the constants and inputs of a jaxpr."""
    values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(closed.jaxpr.invars, inputs, strict=True))
    return values


def read(values: Values, atom: Any) -> Any:
    """Returns the value of a variable or literal of a jaxpr."""
    return values[atom] if isinstance(atom, Var) else atom.val


def bind(equation: JaxprEqn, inputs: list[Any], params: dict[str, Any]) -> list[Any]:
    """Returns the outputs of an equation for these inputs and parameters."""
    with equation.ctx.manager:
        outputs = equation.primitive.bind(
            *inputs, **equation.primitive.get_bind_params(params)
        )
    return list(outputs) if equation.primitive.multiple_results else [outputs]


Rule = Callable[[JaxprEqn, list[Any]], Sequence[Any] | None]
"""Returns the outputs of an equation; None to compute them as usual."""


def evaluate(
    closed: ClosedJaxpr,
    inputs: Sequence[Any],
    rule: Rule,
    read_atom: Callable[[Values, Any], Any] = read,
) -> list[Any]:
    """Returns the outputs of a program, with `rule` for some of its equations.

    Args:
        closed: The program.
        inputs: Its inputs.
        rule: What to do with an equation and its inputs.
        read_atom: Reads a variable or literal of the program.
    """
    values = initial_values(closed, inputs)
    for equation in closed.jaxpr.eqns:
        given = [read_atom(values, atom) for atom in equation.invars]
        outputs = rule(equation, given)
        if outputs is None:
            outputs = bind(equation, given, equation.params)
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read_atom(values, atom) for atom in closed.jaxpr.outvars]


def rebuilt(
    like: Jaxpr,
    constants: Sequence[Var],
    inputs: Sequence[Var],
    outputs: Sequence[Any],
    equations: Sequence[JaxprEqn],
) -> Jaxpr:
    """Returns a jaxpr of these equations, with the debug info of `like`."""
    info = like.debug_info
    return Jaxpr(
        list(constants),
        list(inputs),
        list(outputs),
        list(equations),
        frozenset().union(*(equation.effects for equation in equations)),
        debug_info=type(info)(info.traced_for, info.func_src_info, None, None),
    )


def kind_of(atom: Any) -> tuple[tuple[int, ...], Any]:
    """Returns shape and dtype of a variable or literal of a jaxpr."""
    return atom.aval.shape, atom.aval.dtype


def stand_ins(jaxpr: Jaxpr) -> list[jax.ShapeDtypeStruct]:
    """Returns the shapes and dtypes of the inputs of a jaxpr, to trace it again."""
    avals: list[Any] = [var.aval for var in jaxpr.invars]
    return [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        for aval in avals
    ]
