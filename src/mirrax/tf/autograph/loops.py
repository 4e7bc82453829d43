"""Loops over traced tensors, as `mirrax.while_loop` and `mirrax.scan`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import mirrax
from mirrax.tf import debugging
from mirrax.tf.autograph.branches import condition, is_traced, truth
from mirrax.tf.autograph.ranges import TracedRange
from mirrax.tf.autograph.state import (
    Value,
    difference,
    filled,
    is_missing_return,
    is_same,
    is_tensor,
    tensors_of,
    values_of,
)
from mirrax.tf.tensors.tensor_arrays import TensorArray

State = Sequence[Any]


class Loop:
    """A loop, with the variables that it changes.

    Args:
        names: The names of the variables.
        get_state: Returns their values.
        set_state: Sets their values.
        extra_test: Says whether it goes on; None without `break`.
        options: What `set_loop_options` was given.
    """

    def __init__(
        self,
        names: Sequence[str],
        get_state: Callable[[], State],
        set_state: Callable[[State], None],
        extra_test: Callable[[], Any] | None,
        options: dict[str, Any],
    ) -> None:
        self._names = names
        self._get_state = get_state
        self._set_state = set_state
        self._extra_test = extra_test
        self._limit = options.get("maximum_iterations")

    @property
    def has_growing_array(self) -> bool:
        """Whether it writes to a `TensorArray` that may get longer."""
        leaves = jax.tree.leaves(self._get_state(), is_leaf=_is_array)
        return any(_is_list(x) and x.dynamic_size for x in leaves)

    def over_rows(self, rows: Any, body: Callable[[Any], None]) -> None:
        """Runs a loop over the rows of a tensor."""
        if jnp.ndim(rows) == 0:
            raise TypeError(
                "A loop goes over the first dimension of a tensor. Received: a scalar. "
                "Use `tf.range(n)`."
            )
        if self._limit is not None:
            rows = rows[: int(self._limit)]
        start, checks = self._started(lambda: body(rows[0]))

        def step(carry: Any, row: Any) -> tuple[Any, None]:
            return self._advanced(start, carry, lambda: body(row)), None

        final, _ = mirrax.scan(step, tensors_of(start), rows)
        if checks:
            _require_iterations(len(rows), checks)
        self._set_state(filled(start, final))

    def over_range(self, numbers: TracedRange, body: Callable[[Any], None]) -> None:
        """Runs a loop over a range of unknown length."""
        length = numbers.length
        if self._limit is not None:
            length = jnp.minimum(length, self._limit)
        self._run(lambda index: index < length, lambda index: body(numbers.at(index)))

    def on_condition(self, test: Callable[[], Any], body: Callable[[], None]) -> None:
        """Runs a loop while a condition holds."""

        def goes_on(index: Any) -> Any:
            return condition(jnp.asarray(truth(test())), "while statement")

        if self._limit is None or is_traced(self._limit):
            self._run(goes_on, lambda _: body(), self._limit)
            return
        # With a known number of iterations it can be differentiated.
        bounded = Loop(self._names, self._get_state, self._set_state, test, {})
        bounded.over_rows(jnp.arange(int(self._limit)), lambda _: body())

    def _run(
        self,
        goes_on: Callable[[Any], Any],
        body: Callable[[Any], None],
        limit: Any = None,
    ) -> None:
        start, checks = self._started(lambda: body(jnp.int32(0)))

        def holds(carry: Any) -> Any:
            index, tensors = carry
            self._set_state(filled(start, tensors))
            found = goes_on(index)
            if limit is not None:
                found = jnp.logical_and(found, index < limit)
            if self._extra_test is not None:
                found = jnp.logical_and(found, self._extra_test())
            return found

        def step(carry: Any) -> Any:
            index, tensors = carry
            self._set_state(filled(start, tensors))
            body(index)
            return index + 1, self._ended(start)

        first = (jnp.int32(0), tensors_of(start))
        count, final = mirrax.while_loop(holds, step, first)
        if checks:
            _require_iterations(count, checks)
        self._set_state(filled(start, final))

    def _advanced(
        self, start: Sequence[Value], tensors: Any, body: Callable[[], None]
    ) -> list[Any]:
        """Returns the variables after one iteration, unless the loop has ended."""

        def run() -> list[Any]:
            self._set_state(filled(start, tensors))
            body()
            return self._ended(start)

        self._set_state(filled(start, tensors))
        goes_on = True if self._extra_test is None else truth(self._extra_test())
        if is_traced(goes_on):
            return mirrax.cond(goes_on, run, lambda: list(tensors))
        return run() if goes_on else list(tensors)

    def _ended(self, start: Sequence[Value]) -> list[Any]:
        """Returns the variables at the end of an iteration, if they fit the start."""
        end = values_of(self._names, self._get_state())
        for pair in zip(start, end, strict=True):
            _require_unchanged(*pair)
        return tensors_of(end)

    def _started(
        self, body: Callable[[], None]
    ) -> tuple[Sequence[Value], Sequence[str]]:
        """Returns the variables that the loop starts with.

        Those without a value get one of the kind that an iteration gives them. Also
        returns the names of those that must not be used without an iteration.
        """
        state = self._get_state()
        start = values_of(self._names, state)
        for value in start:
            if is_missing_return(value.leaves[0] if value.leaves else None):
                raise NotImplementedError(
                    "a return statement cannot be placed inside a loop over tensors. "
                    "Assign to a variable, use `break`, and return after the loop."
                )
        arrays = jax.tree.leaves(state, is_leaf=_is_array)
        open_names = {v.name for v in start if v.is_undefined or v.is_none}
        if not open_names and not any(map(_is_list, arrays)):
            return start, ()
        end: list[Any] = []

        def iteration() -> list[Any]:
            self._set_state(filled(start, tensors_of(start)))
            body()
            end[:] = self._get_state()
            return [tensors_of(values_of(self._names, end))]

        shapes = iter(mirrax.eval_shape(iteration)[0])
        self._set_state(state)
        known = [
            jax.tree.map(lambda leaf: _zeros(leaf, shapes), value, is_leaf=_is_none)
            for value in end
        ]
        filled_in = tuple(
            _whole(after) if name in open_names else _whole(before, after)
            for name, before, after in zip(self._names, state, known, strict=True)
        )
        started = values_of(self._names, filled_in)
        undefined = [v.name for v in start if v.is_undefined]
        return started, [v.name for v in started if v.name in undefined and v.tensors]


def _zeros(leaf: Any, shapes: Iterator[Any]) -> Any:
    if not is_tensor(leaf):
        return leaf
    shape = next(shapes)
    return jnp.zeros(shape.shape, shape.dtype)


def _is_none(value: Any) -> bool:
    return value is None or isinstance(value, mirrax.Variable)


def _whole(value: Any, after: Any = None) -> Any:
    """Returns a value with each `TensorArray` as one array, which loops can carry."""
    if not _is_array(value):
        return value
    shape = after.element_shape if _is_array(after) else None
    return jax.tree.map(lambda x: x, value).as_whole(shape)


def _require_unchanged(start: Value, end: Value) -> None:
    """Raises unless a variable has the kind that it had before the loop."""
    name = start.name
    if start.structure != end.structure:
        raise TypeError(
            f"'{name}' does not have the same nested structure after one iteration. "
            f"Received: {start.structure} before the loop, and {end.structure} after."
        )
    for before, after in zip(start.leaves, end.leaves, strict=True):
        if not is_tensor(before) or not is_tensor(after):
            if not is_same(before, after):
                raise TypeError(
                    f"'{name}' is {before!r} before the loop, but {after!r} after one "
                    "iteration. A loop over tensors can change only tensors."
                )
            continue
        places = ("before the loop", "after one iteration")
        found = difference(name, before, after, places)
        if found is not None and found[0] == "dtype":
            raise TypeError(f"{found[1]} Use `tf.cast`.")
        if found is not None:
            raise ValueError(
                f"{found[1]} Compiled loops need one shape: use a `tf.TensorArray`."
            )


def _require_iterations(count: Any, names: Sequence[str]) -> None:
    shown = ", ".join(f"'{name}'" for name in names)
    debugging.assert_positive(
        count, f"{shown} must be defined before the loop, or the loop must iterate"
    )


def _is_array(value: Any) -> bool:
    return isinstance(value, TensorArray)


def _is_list(value: Any) -> bool:
    return _is_array(value) and not value.is_whole
