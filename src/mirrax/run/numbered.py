"""Programs over sizes: the program for certain numbers.

The user's Python does not run again. Wherever a size stands in the traced program, in
shapes, in parameters, or as a value, the number takes its place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax.devices.topology import AXIS
from mirrax.jax_internals import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from mirrax.jax_symbols import (
    Numbers,
    Size,
    dim_as_value_p,
    number_of,
    symbols_of,
)
from mirrax.run.jaxprs import all_equations, inner_jaxprs


def numbered(closed: ClosedJaxpr, numbers: Numbers) -> ClosedJaxpr:
    """Returns the program in which the sizes are these numbers.

    Sizes with a symbol that has no number stay.
    """
    jaxpr: Jaxpr = Filling(numbers).of(closed.jaxpr)
    return ClosedJaxpr(jaxpr, closed.consts)


def numbered_for_replica(jaxpr: Jaxpr, numbers: Numbers, replica: int) -> ClosedJaxpr:
    """Returns what one replica does of a program for all, with its own numbers."""
    return ClosedJaxpr(Filling(numbers, replica).of(jaxpr), ())


def has_sizes(equation: JaxprEqn) -> bool:
    """Returns whether sizes stayed in an equation, or in a program inside it."""
    inside = (e for inner in inner_jaxprs(equation) for e in all_equations(inner))
    return any(_has_own_sizes(e) for e in (equation, *inside))


def _has_own_sizes(equation: JaxprEqn) -> bool:
    return equation.primitive is dim_as_value_p or any(
        isinstance(size, Size)
        for atom in (*equation.invars, *equation.outvars)
        for size in getattr(atom.aval, "shape", ())
    )


class Filling:
    """Numbers on their way to the places of sizes.

    Args:
        numbers: What each symbol stands for; sizes with other symbols stay.
        replica: The replica that the program is for; None for all.
    """

    def __init__(self, numbers: Numbers, replica: int | None = None) -> None:
        self._numbers = numbers
        self._replica = replica
        # A program that is called twice stays one, so that it is compiled once.
        self._jaxprs: dict[int, Jaxpr] = {}

    def of(self, value: Any) -> Any:
        """Returns a part of a program with numbers in it; itself if it has no sizes."""
        match value:
            case Size():
                return number_of(value, self._numbers) if self._knows(value) else value
            case ClosedJaxpr():
                return ClosedJaxpr(self.of(value.jaxpr), value.consts)
            case Jaxpr():
                if id(value) not in self._jaxprs:
                    self._jaxprs[id(value)] = self._program(value)
                return self._jaxprs[id(value)]
            case jax.core.ShapedArray():
                shape = self.of(value.shape)
                return value if shape is value.shape else value.update(shape=shape)
            case jax.ShapeDtypeStruct():
                shape = self.of(value.shape)
                return value if shape is value.shape else value.update(shape=shape)
            case tuple() | list():
                return self._sequence(value)
            case dict():
                return {key: self.of(item) for key, item in value.items()}
            case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return self._record(value)
            case _:
                return value

    def _knows(self, size: Size) -> bool:
        return symbols_of(size) <= self._numbers.keys()

    def _sequence(self, value: Any) -> Any:
        items = [self.of(item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        is_named = hasattr(value, "_fields")
        return type(value)(*items) if is_named else type(value)(items)

    def _record(self, value: Any) -> Any:
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        pairs = [(name, getattr(value, name)) for name in fields]
        changed = {name: new for name, old in pairs if (new := self.of(old)) is not old}
        return dataclasses.replace(value, **changed) if changed else value

    def _program(self, jaxpr: Jaxpr) -> Jaxpr:
        atoms: dict[Var, Any] = {}

        def bound(variables: Sequence[Var]) -> list[Var]:
            for var in variables:
                atoms[var] = _like(var, self.of(var.aval))
            return [atoms[var] for var in variables]

        def read(atom: Any) -> Any:
            return atoms[atom] if isinstance(atom, Var) else atom

        constvars, invars = bound(jaxpr.constvars), bound(jaxpr.invars)
        eqns: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            inputs = [read(atom) for atom in eqn.invars]
            known = self._known(eqn, inputs)
            if known is not None:
                atoms[eqn.outvars[0]] = known
                continue
            eqns.append(
                eqn.replace(
                    invars=inputs,
                    outvars=bound(eqn.outvars),
                    params={name: self.of(item) for name, item in eqn.params.items()},
                )
            )
        outvars = [read(atom) for atom in jaxpr.outvars]
        return jaxpr.replace(  # type: ignore[no-any-return]
            constvars=constvars, invars=invars, outvars=outvars, eqns=eqns
        )

    def _known(self, eqn: JaxprEqn, inputs: Sequence[Any]) -> Literal | None:
        """Returns the constant that takes the place of an equation about sizes."""
        aval: Any = eqn.outvars[0].aval if eqn.outvars else None
        if eqn.primitive is dim_as_value_p:
            if not self._knows(eqn.params["dim"]):
                return None
            number = number_of(eqn.params["dim"], self._numbers)
            return Literal(np.asarray(number, aval.dtype)[()], aval)
        if self._replica is not None and _asks_for_replica(eqn):
            return Literal(np.asarray(self._replica, aval.dtype)[()], aval)
        if eqn.primitive.name != "convert_element_type" or aval.shape:
            return None
        # As Python's numbers, which are constants of the right type at once.
        value = inputs[0].val if isinstance(inputs[0], Literal) else None
        if value is None or jnp.issubdtype(aval.dtype, jax.dtypes.extended):
            return None
        return Literal(np.asarray(value).astype(aval.dtype)[()], aval)


def _asks_for_replica(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "axis_index" and eqn.params["axis_name"] == AXIS


def _like(var: Any, aval: Any) -> Var:
    return var if aval is var.aval else Var(aval, var.initial_qdd, var.final_qdd)
