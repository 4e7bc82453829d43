"""`GradientTape`: gradients in the style of TensorFlow.

The tape records each operation, also while a function is traced (`recording`).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax import trees
from mirrax._jax.traces import is_traced_in, traces_under_way
from mirrax.run.gradients.recording import Recording
from mirrax.trees import Tree
from mirrax.values.array_like import as_array, as_arrays
from mirrax.variables import foreign_libraries
from mirrax.variables.variable import Variable

_Weigh = Callable[[list[Any]], Any]
"""Combines the targets into what is differentiated."""


class GradientTape:
    """Records what is computed in its `with` block, to take gradients of it.

    It records each operation, and replays them for the gradient; inside
    `mirrax.function` all of this becomes part of the program.

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
        self._recording = Recording(watch_accessed_variables)
        self._traces: Sequence[Any] = ()

    def __enter__(self) -> GradientTape:
        # Entered again, it goes on with what it has.
        self._traces = traces_under_way()
        self._recording.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._recording.stop()

    def watch(self, tensor: Tree) -> None:
        """Makes variables sources of gradients; every other value can be one anyway."""
        for leaf in foreign_libraries.flatten_sources(tensor)[0]:
            source = foreign_libraries.sources_of(leaf)
            variables = source.variables if source else ()
            self._recording.watched |= dict.fromkeys(variables)

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
        self._recording.is_paused = True
        try:
            yield
        finally:
            self._recording.is_paused = False

    def reset(self) -> None:
        """Forgets what was recorded so far."""
        self._recording.forget()

    def watched_variables(self) -> tuple[Variable, ...]:
        """Returns the variables given to `watch`, and those read that are watched."""
        return tuple(self._recording.reads | self._recording.watched)

    def _derivatives(
        self, weigh: _Weigh, targets: list[Any], sources: Tree, unconnected: Any
    ) -> Tree:
        given, structure = foreign_libraries.flatten_sources(sources)
        resolved = [
            foreign_libraries.sources_of(leaf) or _array(leaf) for leaf in given
        ]
        leaves = [leaf for source in resolved for leaf in source.variables]
        targets = [self._latest_value(target) for target in targets]
        groups = [self._recording.values_of(leaf) for leaf in leaves]
        for value in itertools.chain(targets, *groups):
            self._require_here(value)
        found = self._recording.gradients(weigh, targets, groups)
        if _is_zero(unconnected):
            shape = targets[0].shape if weigh is _only else ()
            found = [
                jnp.zeros((*shape, *leaf.shape), leaf.dtype) if one is None else one
                for leaf, one in zip(leaves, found, strict=True)
            ]
        return trees.unflatten(structure, foreign_libraries.assemble(resolved, found))

    def _latest_value(self, target: Any) -> Any:
        """Returns the last value of a variable, which stands for it as a target."""
        if not isinstance(target, Variable):
            return target
        if not self._recording.values_of(target):
            self._recording.record_read(target, as_array(target))
        return [target, *self._recording.values_of(target)][-1]

    def _require_here(self, value: Any) -> None:
        """Raises if `value` belongs to another trace than the tape."""
        is_traced = isinstance(value, jax.core.Tracer)
        if is_traced and not any(is_traced_in(value, trace) for trace in self._traces):
            raise RuntimeError(
                "A tape is asked for gradients of what was computed where it was "
                "entered. Received: a value from inside of a scan, cond or jit, for a "
                "tape that was entered outside of it. Put the whole `with tape` into "
                "that part, or ask for the gradient outside."
            )


def _array(leaf: Any) -> foreign_libraries.Sources:
    return foreign_libraries.Sources([leaf], lambda gradients: gradients[0])


def _is_zero(unconnected: Any) -> bool:
    """Returns whether sources without a gradient get zeros in place of None."""
    choice = str(getattr(unconnected, "value", unconnected)).lower()
    if choice not in ("none", "zero"):
        raise ValueError(
            f"Unknown value for unconnected_gradients: {choice!r}. It must be 'none' "
            "or 'zero'."
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
