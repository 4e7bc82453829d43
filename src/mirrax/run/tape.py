"""`GradientTape`: gradients for code that is written as TensorFlow's.

While a function is traced, the tape leaves marks in the program (`tape_marks`). In code
that runs eagerly it keeps a recording instead (`recording`).
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
from mirrax.run.recording import Recording
from mirrax.run.tape_marks import gradient_p, mark_p, source_p
from mirrax.trees import Tree
from mirrax.values.array_like import as_array, as_arrays
from mirrax.variables import libraries
from mirrax.variables.variable import Variable

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
