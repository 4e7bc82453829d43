"""`GradientTape`: gradients for code that is written as TensorFlow's.

While a function is traced, the tape leaves marks in the program: where it starts, where
it stops, and where a gradient is wanted. Before the program is compiled, each wanted
gradient is replaced by a real reverse-mode derivative of what stands between the marks.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive

from mirrax import trees
from mirrax.context import stack
from mirrax.run.jaxprs import (
    Values,
    bind,
    initial_values,
    inner_jaxprs,
    read,
    stand_ins,
)
from mirrax.trees import Tree
from mirrax.values.array_like import as_array
from mirrax.variables.variable import Variable

mark_p = Primitive("tape_mark")
"""Where a tape starts or stops to record."""
mark_p.def_abstract_eval(lambda **_: jax.core.ShapedArray((), jnp.bool_))

gradient_p = Primitive("tape_gradient")
"""Where a gradient is wanted: of the first input with respect to the others."""
gradient_p.multiple_results = True
gradient_p.def_abstract_eval(lambda target, *sources, **_: list(sources))

_numbers = itertools.count()


class GradientTape:
    """Records what is computed in its `with` block, to take gradients of it.

    Works wherever code is traced: inside `mirrax.function`. `mirrax.value_and_grad` is
    the shorter way, and works everywhere.

    Args:
        persistent: Accepted for ported programs; every tape can be asked repeatedly.
        watch_accessed_variables: Whether variables are watched without `watch`.
    """

    def __init__(
        self, persistent: bool = False, watch_accessed_variables: bool = True
    ) -> None:
        self._number = next(_numbers)
        self._watches_variables = watch_accessed_variables
        self._at_start: dict[Variable, Any] = {}

    def __enter__(self) -> GradientTape:
        overlay = stack.overlay()
        if overlay is None:
            raise RuntimeError(
                "A GradientTape records while a function is traced. Received: a tape "
                "in code that runs eagerly. Decorate the function with "
                "`@mirrax.function`, or use `mirrax.value_and_grad`."
            )
        self._overlay = overlay
        self._at_start = dict(overlay.values)
        self._mark("start")
        return self

    def __exit__(self, *_: object) -> None:
        self._mark("stop")

    def watch(self, tensor: Tree) -> None:
        """Accepted for ported programs: every value can be a source of a gradient."""

    def gradient(
        self,
        target: Tree,
        sources: Tree,
        output_gradients: Tree = None,
        unconnected_gradients: Any = None,
    ) -> Tree:
        """Returns the gradients of `target` with respect to `sources`.

        Args:
            target: What is differentiated; several values, or an array, are summed up.
            sources: A structure of variables and arrays.
            output_gradients: Weights for the values of `target`.
            unconnected_gradients: "zero" for zeros in place of None for variables that
                the tape did not see.
        """
        leaves, structure = trees.flatten(sources)
        values = [self._source(leaf) for leaf in leaves]
        known = [value for value in values if value is not None]
        total = _weighted_sum(target, output_gradients)
        found = iter(gradient_p.bind(total, *known, tape=self._number))
        is_zero = str(getattr(unconnected_gradients, "value", "")).lower() == "zero"
        missing = [
            jnp.zeros(leaf.shape, leaf.dtype) if is_zero else None for leaf in leaves
        ]
        gradients = [
            gap if value is None else next(found)
            for value, gap in zip(values, missing, strict=True)
        ]
        return trees.unflatten(structure, gradients)

    def _source(self, leaf: Any) -> Any:
        if not isinstance(leaf, Variable):
            return as_array(leaf)
        value = self._at_start.get(leaf, self._overlay.initial.get(leaf))
        return value if self._watches_variables else None

    def _mark(self, what: str) -> None:
        mark_p.bind(tape=self._number, what=what)


def _weighted_sum(target: Tree, weights: Tree) -> jax.Array:
    targets = [jnp.asarray(as_array(leaf)) for leaf in trees.leaves(target)]
    if weights is None:
        return sum((jnp.sum(value) for value in targets), start=jnp.zeros(()))
    return sum(
        (
            jnp.sum(value * weight)
            for value, weight in zip(targets, trees.leaves(weights), strict=True)
        ),
        start=jnp.zeros(()),
    )


def differentiate(
    closed: ClosedJaxpr, axis_env: Sequence[tuple[str, int]]
) -> ClosedJaxpr:
    """Returns the program with every wanted gradient replaced by a derivative."""
    if not _wants_gradient(closed.jaxpr):
        return closed

    def program(*inputs: Any) -> list[Any]:
        values = initial_values(closed, inputs)
        _evaluate(closed.jaxpr.eqns, values, axis_env)
        return [read(values, atom) for atom in closed.jaxpr.outvars]

    return jax.make_jaxpr(program, axis_env=list(axis_env))(*stand_ins(closed.jaxpr))


def _wants_gradient(jaxpr: Jaxpr) -> bool:
    return any(
        eqn.primitive is gradient_p
        or any(_wants_gradient(inner) for inner in inner_jaxprs(eqn))
        for eqn in jaxpr.eqns
    )


def _evaluate(
    eqns: Sequence[JaxprEqn],
    values: Values,
    axis_env: Sequence[tuple[str, int]],
) -> None:
    for index, eqn in enumerate(eqns):
        if eqn.primitive is gradient_p:
            _gradient(eqns[:index], eqn, values, axis_env)
        elif eqn.primitive is mark_p:
            values[eqn.outvars[0]] = jnp.zeros((), jnp.bool_)
        else:
            params = {
                name: _differentiated(value, axis_env)
                for name, value in eqn.params.items()
            }
            inputs = [read(values, atom) for atom in eqn.invars]
            values.update(zip(eqn.outvars, bind(eqn, inputs, params), strict=True))


def _differentiated(parameter: Any, axis_env: Sequence[tuple[str, int]]) -> Any:
    if isinstance(parameter, ClosedJaxpr) and _wants_gradient(parameter.jaxpr):
        return differentiate(parameter, axis_env)
    if isinstance(parameter, tuple):
        return tuple(_differentiated(item, axis_env) for item in parameter)
    return parameter


def _gradient(
    before: Sequence[JaxprEqn],
    eqn: JaxprEqn,
    values: Values,
    axis_env: Sequence[tuple[str, int]],
) -> None:
    """Evaluates one wanted gradient.

    What was recorded is evaluated again as a function of the sources; the values that
    it gives replace the first ones, so that XLA drops the first evaluation.
    """
    target: Any = eqn.invars[0]
    sources: list[Any] = eqn.invars[1:]
    recorded = _depending(_recorded(before, eqn.params["tape"]), sources, target)
    made = [var for item in recorded for var in item.outvars]

    def forward(source_values: list[Any]) -> tuple[Any, list[Any]]:
        inner = dict(values)
        inner.update(zip(sources, source_values, strict=True))
        _evaluate(recorded, inner, axis_env)
        return read(inner, target), [inner[var] for var in made]

    start = [read(values, source) for source in sources]
    total, backward, results = jax.vjp(forward, start, has_aux=True)
    values.update(zip(made, results, strict=True))
    (gradients,) = backward(jnp.ones_like(total))
    values.update(zip(eqn.outvars, gradients, strict=True))


def _recorded(eqns: Sequence[JaxprEqn], tape: int) -> list[JaxprEqn]:
    """Returns what ran while the tape recorded, and the summing up of its target."""
    kept, is_recording, has_stopped = [], False, False
    for eqn in eqns:
        if eqn.primitive is mark_p and eqn.params["tape"] == tape:
            is_recording = eqn.params["what"] == "start"
            has_stopped = not is_recording
        elif is_recording or has_stopped:
            kept.append(eqn)
    return kept


def _depending(
    eqns: Sequence[JaxprEqn], sources: Sequence[Any], target: Any
) -> list[JaxprEqn]:
    """Returns those equations that lead from the sources to the target."""
    reached = {source for source in sources if not isinstance(source, Literal)}
    forward = []
    for eqn in eqns:
        inputs = [atom for atom in eqn.invars if not isinstance(atom, Literal)]
        if reached.isdisjoint(inputs) or reached.issuperset(eqn.outvars):
            continue
        forward.append(eqn)
        reached.update(eqn.outvars)
    needed = {target}
    kept = []
    for eqn in reversed(forward):
        if not needed.isdisjoint(eqn.outvars):
            kept.append(eqn)
            needed.update(a for a in eqn.invars if not isinstance(a, Literal))
    return kept[::-1]
