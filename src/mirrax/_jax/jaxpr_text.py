"""Jaxprs as text that is equal for equal programs, in every process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    inner_jaxprs,
    inner_programs,
    kind_of,
    opaque_parameters,
    source_of,
)

_ADDRESS = re.compile(r"0x[0-9a-f]+")


def describe_lines(jaxpr: Jaxpr, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields a line for each equation, and where in the user's program it comes from.

    The values of constants are not part of it.
    """
    names: dict[Any, int] = {}

    def name(atom: Any) -> str:
        shape, dtype = kind_of(atom)
        if isinstance(atom, Literal):
            return f"constant:{dtype}{list(shape)}"
        number = names.setdefault(atom, len(names))
        return f"v{number}:{dtype}{list(shape)}"

    indent = "  " * depth
    inputs = [name(var) for var in (*jaxpr.constvars, *jaxpr.invars)]
    yield f"{indent}inputs {inputs}", ""
    for equation in jaxpr.eqns:
        given = " ".join(name(atom) for atom in equation.invars)
        made = " ".join(name(atom) for atom in equation.outvars)
        operation = f"{equation.primitive.name} {given} {describe_params(equation)}"
        yield f"{indent}{made} = {operation}", source_of(equation)
        for inner in inner_jaxprs(equation):
            yield from describe_lines(inner, depth + 1)
    yield f"{indent}outputs {[name(atom) for atom in jaxpr.outvars]}", ""


def describe_params(equation: JaxprEqn) -> str:
    """Returns the parameters of an equation, but for the jaxprs among them."""
    params = {
        key: value
        for key, value in sorted(equation.params.items())
        if not _is_program(value)
    }
    opaque = [_contents(value) for value in opaque_parameters(equation)]
    return _ADDRESS.sub("", f"{params} {opaque or ''}")


def _contents(value: Any) -> list[Any]:
    """Returns what a function closes over, or an object holds."""
    closure = getattr(value, "__closure__", None) or ()
    cells = [("", cell.cell_contents) for cell in closure]
    items = [*cells, *getattr(value, "__dict__", {}).items()]
    # The text of a large array leaves most of it out.
    return [
        (name, x.tobytes() if isinstance(x, np.ndarray) else x) for name, x in items
    ]


def _is_program(value: Any) -> bool:
    items = value if isinstance(value, tuple | list) else (value,)
    return any(isinstance(item, ClosedJaxpr | Jaxpr) for item in items)


def find_constants(closed: ClosedJaxpr) -> Iterator[tuple[Any, Any]]:
    """Yields what stands for each constant, and its value, in a fixed order."""
    yield from zip(closed.jaxpr.constvars, closed.consts, strict=False)
    for equation in closed.jaxpr.eqns:
        yield from _literals(equation.invars)
        for inner in inner_programs(equation):
            yield from find_constants(inner)
    yield from _literals(closed.jaxpr.outvars)


def _literals(atoms: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return ((atom, atom.val) for atom in atoms if isinstance(atom, Literal))
