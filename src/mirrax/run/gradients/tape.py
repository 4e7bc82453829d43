"""`GradientTape`: gradients in the style of TensorFlow.

While a function is traced, the tape leaves marks in the program (`tape_rewrite`). In
code that runs eagerly it keeps a recording instead (`eager_tape`).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax import trees
from mirrax._jax.traces import (
    atoms_of,
    current_trace,
    equations_so_far,
    is_constant,
    is_program,
    is_traced_in,
    set_current_trace,
    traces_under_way,
)
from mirrax.context import stack
from mirrax.run.gradients.eager_tape import Recording, added_up
from mirrax.run.gradients.tape_rewrite import connected, gradient_p, mark_p, source_p
from mirrax.trees import Tree
from mirrax.values.array_like import as_array, as_arrays
from mirrax.variables import foreign_libraries
from mirrax.variables.variable import Variable

_numbers = itertools.count()

_Weigh = Callable[[list[Any]], Any]
"""Combines the targets into what is differentiated."""


class GradientTape:
    """Records what is computed in its `with` block, to take gradients of it.

    Inside `mirrax.function` it becomes part of the program. In code that runs eagerly
    it records each operation, and replays them for the gradient.

    Args:
        persistent: Accepted for ported programs; every tape can be asked repeatedly.
        watch_accessed_variables: Whether trainable variables are watched without
            `watch`.

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
        self._uses = _Uses(watch_accessed_variables)
        self._recording: Recording | None = None
        self._trace: Any = None
        # The mark that restores the current state.
        self._state = "stop"

    def __enter__(self) -> GradientTape:
        overlay, trace = stack.overlay(), current_trace()
        # In a derivative of a program the tape must be differentiated itself.
        has_marks = is_program(trace)
        if overlay is None or overlay.is_eager or not has_marks:
            # Entered again, it goes on with what it has.
            self._recording = self._recording or Recording(self._uses)
            self._recording.start()
            return self
        self._overlay = overlay
        is_new = self._trace is None
        self._trace = trace
        self._uses.traces = traces_under_way()
        self._mark("start" if is_new else "resume")
        self._detach_values(overlay.values)
        overlay.watchers.append(self._uses)
        return self

    def __exit__(self, *_: object) -> None:
        if self._recording is not None:
            self._recording.stop()
            return
        watchers = self._overlay.watchers
        watchers[:] = [w for w in watchers if w is not self._uses]
        self._mark("stop")

    def watch(self, tensor: Tree) -> None:
        """Makes variables sources of gradients; every other value can be one anyway."""
        for leaf in foreign_libraries.flatten_sources(tensor)[0]:
            source = foreign_libraries.sources_of(leaf)
            variables = source.variables if source else ()
            if self._trace is not None:
                self._detach_values(v for v in variables if not self._uses.watches(v))
            self._uses.watched |= dict.fromkeys(variables)

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
            weights = output_gradients
            if weights is not None:
                weights = [self._constant(weight) for weight in trees.leaves(weights)]
            return _weighted_sum(trees.unflatten(nesting, values), weights)

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
        self._uses.values.clear()
        self._uses.watched.clear()
        if self._recording is None:
            self._mark("start")
        else:
            self._recording.forget()

    def watched_variables(self) -> tuple[Variable, ...]:
        """Returns the variables given to `watch`, and those read that are watched."""
        return tuple(self._uses.values | self._uses.watched)

    def _derivatives(
        self, weigh: _Weigh, targets: list[Any], sources: Tree, unconnected: Any
    ) -> Tree:
        given, structure = foreign_libraries.flatten_sources(sources)
        resolved = [
            foreign_libraries.sources_of(leaf) or _array(leaf) for leaf in given
        ]
        leaves = [leaf for source in resolved for leaf in source.variables]
        targets = [self._uses.latest(target) for target in targets]
        groups = [self._uses.of(leaf) for leaf in leaves]
        if self._recording is None:
            found = self._traced(weigh, targets, groups)
        else:
            found = self._recording.gradients(weigh, targets, groups)
        if _is_zero(unconnected):
            shape = targets[0].shape if weigh is _only else ()
            found = [
                jnp.zeros((*shape, *leaf.shape), leaf.dtype) if one is None else one
                for leaf, one in zip(leaves, found, strict=True)
            ]
        return trees.unflatten(structure, foreign_libraries.assemble(resolved, found))

    def _pause(self, is_paused: bool) -> None:
        if self._recording is None:
            self._mark("pause" if is_paused else "resume")
        else:
            self._recording.is_paused = is_paused

    def _traced(
        self, weigh: _Weigh, targets: list[Any], groups: Sequence[Sequence[Any]]
    ) -> list[Any]:
        with set_current_trace(self._trace):
            used = [as_arrays(group) for group in groups]
            flat = [x for group in used for x in group]
            for value in as_arrays([*targets, *flat]):
                self._require_here(value)
            before = self._state
            self._mark("resume")
            total = weigh(targets)
            self._mark(before)
            for value in flat:
                _require_traced(value)
            known = self._connected(total, flat)
            gradients = gradient_p.bind(total, *known, tape=self._number)
            by_source = dict(zip(map(id, known), gradients, strict=True))
            return [added_up(by_source, map(id, group)) for group in used]

    def _connected(self, total: Any, sources: Sequence[Any]) -> list[Any]:
        """Returns those sources from which what was recorded leads to the total."""
        equations = equations_so_far(self._trace)
        atoms = atoms_of([total, *sources], self._trace)
        reached = connected(equations, self._number, atoms[0], atoms[1:])
        return [
            source
            for source, atom in zip(sources, atoms[1:], strict=True)
            if atom in reached and jnp.issubdtype(source.dtype, jnp.inexact)
        ]

    def _require_here(self, value: Any) -> None:
        """Raises if `value` belongs to another trace than the tape."""
        is_traced = isinstance(value, jax.core.Tracer)
        if is_traced and not self._uses.is_known(value):
            raise RuntimeError(
                "A tape is asked for gradients of what was computed where it was "
                "entered. Received: a value from inside of a scan, cond or jit, for a "
                "tape that was entered outside of it. Put the whole `with tape` into "
                "that part, or ask for the gradient outside."
            )

    def _detach_values(self, variables: Iterable[Variable]) -> None:
        """Detaches variables from earlier uses, which are no part of a gradient."""
        values = self._overlay.values
        if self._overlay.is_current:
            for variable in [v for v in variables if v in values]:
                values[variable] = source_p.bind(values[variable], tape=None)

    def _constant(self, weight: Any) -> Any:
        """Returns a value that does not depend on sources, for this tape."""
        if self._recording is not None:
            return weight
        return source_p.bind(as_array(weight), tape=self._number)

    def _mark(self, what: str) -> None:
        self._state = "resume" if what == "start" else what
        mark_p.bind(tape=self._number, what=what)


class _Uses:
    """The values of variables that a tape saw, in the order of their reads."""

    def __init__(self, watches_trainable: bool) -> None:
        self.watched: dict[Variable, None] = {}
        self.values: dict[Variable, list[Any]] = {}
        self.traces: Sequence[Any] = ()
        self._watches_trainable = watches_trainable

    def watches(self, variable: Variable) -> bool:
        """Returns whether a read of `variable` is one of a source, from now on."""
        is_watched = self._watches_trainable and variable.trainable
        return is_watched or variable in self.watched

    def record_read(self, variable: Variable, value: Any) -> None:
        """Keeps a value that was read, if the variable is watched by now."""
        if not self.watches(variable):
            return
        if self.traces and not self.is_known(value):
            # A value of an inner derivative, which handles it itself.
            return
        values = self.values.setdefault(variable, [])
        if not values or values[-1] is not value:
            values.append(value)

    def detach(self, value: Any) -> Any:
        return source_p.bind(value, tape=None)

    def is_known(self, value: Any) -> bool:
        """Returns whether a traced value belongs to where the tape was entered."""
        return any(is_traced_in(value, trace) for trace in self.traces)

    def of(self, source: Any) -> Sequence[Any]:
        """Returns the values that a variable, or another source, had."""
        return self.values.get(source, ()) if isinstance(source, Variable) else [source]

    def latest(self, target: Any) -> Any:
        """Returns the value that stands for a variable as target."""
        if not isinstance(target, Variable):
            return target
        if target not in self.values:
            self.record_read(target, as_array(target))
        values = self.values.get(target)
        return values[-1] if values else target


def _require_traced(value: Any) -> None:
    if is_constant(value):
        raise ValueError(
            "A source of a gradient must be a variable, or a value that the function "
            f"was given or has computed. Received: a constant, {value!r}, whose uses "
            "cannot be told apart from those of an equal one. Pass it as an argument "
            "of the function, or make it a variable."
        )


def _array(leaf: Any) -> foreign_libraries.Sources:
    return foreign_libraries.Sources([leaf], lambda gradients: gradients[0])


def _is_zero(unconnected: Any) -> bool:
    """Returns whether sources without a gradient get zeros in place of None."""
    choice = str(getattr(unconnected, "value", unconnected)).lower()
    if choice not in ("none", "zero"):
        raise ValueError(
            f'`unconnected_gradients` must be "none" or "zero". Received: {choice!r}.'
        )
    return choice == "zero"


def _only(values: list[Any]) -> Any:
    return values[0]


def _weighted_sum(target: Tree, weights: Tree) -> jax.Array:
    targets = as_arrays(trees.leaves(target))
    if weights is not None:
        pairs = zip(targets, trees.leaves(weights), strict=True)
        targets = [value * weight for value, weight in pairs]
    return sum(map(jnp.sum, targets), start=jnp.zeros(()))
