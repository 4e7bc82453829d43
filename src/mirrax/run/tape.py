"""`GradientTape`: gradients for code that is written as TensorFlow's.

While a function is traced, the tape leaves marks in the program: where it starts, where
it stops, and where a gradient is wanted. Before the program is compiled, each wanted
gradient is replaced by a real reverse-mode derivative of what stands between the marks.
In code that runs eagerly it keeps a recording instead.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax import jax_internals, trees
from mirrax.context import stack
from mirrax.jax_internals import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive, Var
from mirrax.run.jaxprs import (
    Values,
    all_equations,
    bind,
    initial_values,
    read,
    stand_ins,
)
from mirrax.run.recording import Recording, derivatives
from mirrax.trees import Tree
from mirrax.values.array_like import as_array, as_arrays
from mirrax.variables import libraries
from mirrax.variables.variable import Variable

mark_p = Primitive("tape_mark")
"""Where a tape starts or stops to record."""
mark_p.def_abstract_eval(lambda **_: jax.core.ShapedArray((), jnp.bool_))

source_p = Primitive("tape_source")
"""A value from which gradients are wanted: the value itself."""
source_p.def_abstract_eval(lambda aval: aval)

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

_numbers = itertools.count()

_Weigh = Callable[[list[Any]], Any]
"""Makes what is differentiated of the targets."""


class GradientTape:
    """Records what is computed in its `with` block, to take gradients of it.

    Inside `mirrax.function` it becomes part of the program. In code that runs eagerly
    it notes each operation, and goes through them again for the gradient.

    Args:
        persistent: Accepted for ported programs; every tape can be asked repeatedly.
        watch_accessed_variables: Whether variables are watched without `watch`.

    >>> w = mirrax.Variable(3.0)
    >>> @mirrax.function
    ... def slope(x):
    ...     with GradientTape() as tape:
    ...         y = x * w * w
    ...     return tape.gradient(y, w)
    >>> float(slope(2.0))
    12.0
    """

    def __init__(
        self, persistent: bool = False, watch_accessed_variables: bool = True
    ) -> None:
        self._number = next(_numbers)
        self._watches_variables = watch_accessed_variables
        self._watched: set[Variable] = set()
        self._accessed: dict[Variable, Any] = {}
        self._recording: Recording | None = None

    def __enter__(self) -> GradientTape:
        overlay = stack.overlay()
        if overlay is None or overlay.is_eager:
            # Entered again, it goes on with what it has.
            self._recording = self._recording or Recording()
            self._recording.start()
            return self
        self._overlay = overlay
        self._mark("start")
        for variable, value in overlay.values.items():
            # A value of its own, so that earlier uses of it are no part of a gradient.
            overlay.values[variable] = source_p.bind(value)
        overlay.watchers.append(self._accessed)
        return self

    def __exit__(self, *_: object) -> None:
        if self._recording is not None:
            self._recording.stop()
            return
        watchers = self._overlay.watchers
        watchers[:] = [w for w in watchers if w is not self._accessed]
        self._mark("stop")

    def watch(self, tensor: Tree) -> None:
        """Makes variables sources of gradients; every other value can be one anyway."""
        for leaf in libraries.flatten_sources(tensor)[0]:
            source = libraries.sources_of(leaf)
            self._watched.update(source.variables if source else ())

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
            unconnected_gradients: "zero" for zeros in place of None for sources on
                which the target does not depend.
        """
        targets, nesting = trees.flatten(target)

        def weigh(values: list[Any]) -> jax.Array:
            return _weighted_sum(trees.unflatten(nesting, values), output_gradients)

        return self._derivatives(weigh, targets, sources, unconnected_gradients)

    def jacobian(
        self, target: Any, sources: Tree, unconnected_gradients: Any = None
    ) -> Tree:
        """Returns the derivatives of each element of `target`.

        Args:
            target: An array; its dimensions come first in the results.
            sources: A structure of variables and arrays, each one array.
            unconnected_gradients: As for `gradient`.
        """
        targets = [as_array(target)]
        return self._derivatives(_only, targets, sources, unconnected_gradients)

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Leaves out what is computed in its `with` block."""
        self._pause(True)
        try:
            yield
        finally:
            self._pause(False)

    def reset(self) -> None:
        """Forgets what was recorded so far."""
        if self._recording is None:
            self._mark("start")
        else:
            self._recording.forget()

    def watched_variables(self) -> tuple[Variable, ...]:
        """Returns the variables that were read while the tape recorded."""
        reads = self._accessed if self._recording is None else self._recording.reads
        return tuple(variable for variable in reads if self._is_watched(variable))

    def _derivatives(
        self, weigh: _Weigh, targets: list[Any], sources: Tree, unconnected: Any
    ) -> Tree:
        given, structure = libraries.flatten_sources(sources)
        resolved = [libraries.sources_of(leaf) or _array(leaf) for leaf in given]
        leaves = [leaf for source in resolved for leaf in source.variables]
        if self._recording is None:
            found = self._traced(weigh, targets, leaves)
        else:
            found = self._recorded(self._recording, weigh, targets, leaves)
        choice = getattr(unconnected, "value", unconnected)
        if str(choice).lower() == "zero":
            shape = targets[0].shape if weigh is _only else ()
            found = [
                jnp.zeros((*shape, *leaf.shape), leaf.dtype) if one is None else one
                for leaf, one in zip(leaves, found, strict=True)
            ]
        return trees.unflatten(structure, libraries.assemble(resolved, found))

    def _pause(self, is_paused: bool) -> None:
        if self._recording is None:
            self._mark("pause" if is_paused else "resume")
        else:
            self._recording.is_paused = is_paused

    def _traced(
        self, weigh: _Weigh, targets: list[Any], leaves: Sequence[Any]
    ) -> list[Any]:
        values = [self._source(leaf) for leaf in leaves]
        total = weigh(targets)
        connected = jax_internals.depends_on(total, values)
        values = [
            v if flag else None for v, flag in zip(values, connected, strict=True)
        ]
        known = [value for value in values if value is not None]
        for value in known:
            _require_traced(value)
        found = iter(gradient_p.bind(total, *known, tape=self._number))
        return [None if value is None else next(found) for value in values]

    def _recorded(
        self,
        recording: Recording,
        weigh: _Weigh,
        targets: list[Any],
        leaves: Sequence[Any],
    ) -> list[Any]:
        groups = [
            (recording.reads.get(leaf, []) if self._is_watched(leaf) else [])
            if isinstance(leaf, Variable)
            else [leaf]
            for leaf in leaves
        ]
        return recording.gradients(weigh, targets, groups)

    def _is_watched(self, variable: Variable) -> bool:
        return self._watches_variables or variable in self._watched

    def _source(self, leaf: Any) -> Any:
        """Returns the traced value that a source stands for; None if it has none."""
        if not isinstance(leaf, Variable):
            return as_array(leaf)
        return self._accessed.get(leaf) if self._is_watched(leaf) else None

    def _mark(self, what: str) -> None:
        mark_p.bind(tape=self._number, what=what)


def _require_traced(value: Any) -> None:
    if jax_internals.is_constant(value):
        raise ValueError(
            "A source of a gradient must be a variable, or a value that the function "
            f"was given or has computed. Received: a constant, {value!r}, whose uses "
            "cannot be told apart from those of an equal one. Pass it as an argument "
            "of the function, or make it a variable."
        )


def _array(leaf: Any) -> libraries.Sources:
    return libraries.Sources([leaf], lambda gradients: gradients[0])


def _only(values: list[Any]) -> Any:
    return values[0]


def _weighted_sum(target: Tree, weights: Tree) -> jax.Array:
    targets = as_arrays(trees.leaves(target))
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
    if not _has_tape(closed.jaxpr):
        return closed

    def program(*inputs: Any) -> list[Any]:
        values = initial_values(closed, inputs)
        _evaluate(closed.jaxpr.eqns, values, axis_env)
        return [read(values, atom) for atom in closed.jaxpr.outvars]

    return jax.make_jaxpr(program, axis_env=list(axis_env))(*stand_ins(closed.jaxpr))


def _has_tape(jaxpr: Jaxpr) -> bool:
    return any(eqn.primitive in _TAPE for eqn in all_equations(jaxpr))


def _evaluate(
    eqns: Sequence[JaxprEqn],
    values: Values,
    axis_env: Sequence[tuple[str, int]],
    changes: Values | None = None,
) -> None:
    """Evaluates equations, and adds to what they compute the changes that are given."""
    for index, eqn in enumerate(eqns):
        if eqn.primitive is gradient_p:
            _gradient(eqns[:index], eqn, values, axis_env)
        elif eqn.primitive is mark_p:
            values[eqn.outvars[0]] = jnp.zeros((), jnp.bool_)
        elif eqn.primitive is source_p:
            values[eqn.outvars[0]] = read(values, eqn.invars[0])
        else:
            params = {
                name: _differentiated(value, axis_env)
                for name, value in eqn.params.items()
            }
            inputs = [read(values, atom) for atom in eqn.invars]
            values.update(zip(eqn.outvars, bind(eqn, inputs, params), strict=True))
        for var in eqn.outvars:
            if changes is not None and var in changes:
                values[var] = values[var] + changes[var]


def _differentiated(parameter: Any, axis_env: Sequence[tuple[str, int]]) -> Any:
    if isinstance(parameter, ClosedJaxpr) and _has_tape(parameter.jaxpr):
        return differentiate(parameter, axis_env)
    # Named tuples are facts about the equation, such as the axes of a convolution.
    if type(parameter) is tuple:
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
    it gives replace the first ones, so that XLA drops the first evaluation. A source
    that is computed from others gets a change of zero added, so that the gradient of
    those reaches through it.
    """
    target: Any = eqn.invars[0]
    sources: list[Any] = list(dict.fromkeys(eqn.invars[1:]))
    recorded = _depending(_recorded(before, eqn.params["tape"]), sources, target)
    made = [var for item in recorded for var in item.outvars]
    computed = set(made).intersection(sources)

    def forward(given: list[Any]) -> tuple[Any, list[Any]]:
        inner = dict(values)
        inner.update((s, v) for s, v in zip(sources, given) if s not in computed)
        changes = {s: v for s, v in zip(sources, given) if s in computed}
        _evaluate(recorded, inner, axis_env, changes)
        return read(inner, target), [inner[var] for var in made]

    start = [
        jnp.zeros_like(value) if source in computed else value
        for source, value in ((s, read(values, s)) for s in sources)
    ]
    total, backward, results = jax.vjp(forward, start, has_aux=True)
    values.update(zip(made, results, strict=True))
    gradients = derivatives(total, lambda weights: backward(weights)[0])
    found = dict(zip(sources, gradients, strict=True))
    values.update((out, found[s]) for out, s in zip(eqn.outvars, eqn.invars[1:]))


def _recorded(eqns: Sequence[JaxprEqn], tape: int) -> list[JaxprEqn]:
    """Returns what ran while the tape recorded, and the summing up of its target."""
    kept: list[JaxprEqn] = []
    is_kept = False
    for eqn in eqns:
        if eqn.primitive is mark_p and eqn.params["tape"] == tape:
            is_kept = eqn.params["what"] != "pause"
            if eqn.params["what"] == "start":
                kept.clear()
        elif is_kept:
            kept.append(eqn)
    return kept


def _depending(
    eqns: Sequence[JaxprEqn], sources: Sequence[Any], target: Any
) -> list[JaxprEqn]:
    """Returns those equations that lead from the sources to the target.

    The marks of other tapes stay, because gradients of theirs may be among them.
    """
    reached = {source for source in sources if isinstance(source, Var)}
    forward = []
    for eqn in eqns:
        inputs = [atom for atom in eqn.invars if isinstance(atom, Var)]
        is_mark = eqn.primitive is mark_p
        if not is_mark and reached.isdisjoint(inputs):
            continue
        forward.append(eqn)
        if not is_mark:
            reached.update(eqn.outvars)
    needed = {target} if isinstance(target, Var) else set()
    kept = []
    for eqn in reversed(forward):
        if eqn.primitive is mark_p or not needed.isdisjoint(eqn.outvars):
            kept.append(eqn)
            needed.update(atom for atom in eqn.invars if isinstance(atom, Var))
    return kept[::-1]
