"""What a `GradientTape` records of code that runs eagerly.

Every operation happens as it would without the tape, and is noted: what was done, with
which arrays, and which came out. Arrays are known by their identity. For a gradient,
the notes that lead from the sources to the target are gone through once more, under a
derivative of JAX.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from mirrax import jax_internals
from mirrax.context import stack
from mirrax.jax_internals import RecordedTracer, RecordingTrace, take_current_trace
from mirrax.variables import libraries
from mirrax.variables.overlay import Overlay, ValueOverlay
from mirrax.variables.sync_on_read import SyncOnReadVariable
from mirrax.variables.variable import Variable


class Note(NamedTuple):
    """One operation: it is kept with its arrays, so that their identities last."""

    operation: Callable[..., Any]
    inputs: Sequence[Any]
    outputs: Sequence[Any]


class Recording:
    """The operations of a `with` block, and the variables that were read in it."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.reads: dict[Variable, list[Any]] = {}
        self.is_paused = False
        self._entered = contextlib.ExitStack()

    def start(self) -> None:
        """Notes what happens from now on."""
        outer = stack.overlay()
        trace = RecordingTrace(self._note)
        self._entered.enter_context(libraries.routed())
        self._entered.enter_context(jax_internals.set_current_trace(trace))
        self._overlay = _Reads(self.reads, trace, outer)
        self._entered.enter_context(stack.overlaid(self._overlay, is_eager=True))

    def stop(self) -> None:
        """Notes no more, and hands on what was assigned to variables."""
        self._entered.close()
        overlay, outer = self._overlay, stack.overlay()
        # It leads back here: without it, what was noted goes as soon as the tape does.
        del self._overlay
        for variable in overlay.written:
            value = overlay.values[variable]
            if outer is None:
                variable.assign(value)
            else:
                outer.write(variable, value)

    def forget(self) -> None:
        """Forgets what was noted so far."""
        self.notes.clear()
        self.reads.clear()

    def gradients(
        self, weigh: Callable[[list[Any]], Any], targets: Sequence[Any], sources: Any
    ) -> list[Any]:
        """Returns the derivatives of `weigh(targets)`, None where there is no way.

        Args:
            weigh: Makes one number, or one array, of the values of the targets.
            targets: Arrays that came out of operations.
            sources: For each source the arrays that stand for it.
        """
        for array in (x for group in sources for x in group):
            _require_known(array)
        arrays = {id(x): x for group in sources for x in group if _has_gradient(x)}
        kept, reached = self._between(set(arrays), targets)
        # A source that was computed from others passes theirs on, and a change of its
        # own, which is 0.
        computed = reached.intersection(id(x) for note in kept for x in note.outputs)
        known = {
            number: jnp.zeros_like(x) if number in computed else x
            for number, x in arrays.items()
            if number in reached
        }

        def forward(given: dict[int, Any]) -> Any:
            values = {n: value for n, value in given.items() if n not in computed}
            for note in kept:
                inputs = [values.get(id(x), x) for x in note.inputs]
                for old, new in zip(note.outputs, _listed(note.operation(*inputs))):
                    own = given.get(id(old))
                    values[id(old)] = new if own is None else new + own
            return weigh([values.get(id(x), x) for x in targets])

        total, backward = jax.vjp(forward, known)
        found = derivatives(total, lambda weights: backward(weights)[0])
        return [_added_up(found, dict.fromkeys(map(id, group))) for group in sources]

    def _note(
        self, operation: Callable[..., Any], inputs: Sequence[Any], result: Any
    ) -> Any:
        given = set(map(id, inputs))
        # What is handed through needs an identity of its own.
        outputs = [jnp.copy(x) if id(x) in given else x for x in _listed(result)]
        if not self.is_paused:
            self.notes.append(Note(operation, inputs, outputs))
        return outputs if isinstance(result, list | tuple) else outputs[0]

    def _between(
        self, sources: set[int], targets: Sequence[Any]
    ) -> tuple[list[Note], set[int]]:
        """Returns the notes on the way to the targets, and the sources they reach."""
        depending = set(sources)
        forward = []
        for note in self.notes:
            if not depending.isdisjoint(map(id, note.inputs)):
                forward.append(note)
                depending.update(map(id, note.outputs))
        needed = set(map(id, targets))
        kept = []
        for note in reversed(forward):
            if not needed.isdisjoint(map(id, note.outputs)):
                kept.append(note)
                needed.update(map(id, note.inputs))
        return kept[::-1], needed.intersection(sources)


def derivatives(value: Any, backward: Callable[[Any], Any]) -> Any:
    """Returns what `backward` makes of one number, or of each element of an array."""
    if not value.ndim:
        return backward(jnp.ones_like(value))
    basis = jnp.eye(value.size, dtype=value.dtype).reshape(-1, *value.shape)
    return jax.tree.map(
        lambda rows: rows.reshape(*value.shape, *rows.shape[1:]),
        jax.vmap(backward)(basis),
    )


class _Reads(ValueOverlay):
    """Gives variables their values, and keeps which arrays those were."""

    def __init__(
        self,
        reads: dict[Variable, list[Any]],
        trace: RecordingTrace,
        parent: Overlay | None,
    ) -> None:
        super().__init__({}, parent)
        self._reads = reads
        self._recording = trace
        self._is_traced = False

    @override
    def knows(self, variable: Variable) -> bool:
        # The copies of one that is combined on reading are not seen one by one.
        is_combined = isinstance(variable, SyncOnReadVariable)
        return super().knows(variable) or not is_combined

    @override
    def _find(self, variable: Variable) -> jax.Array:
        with take_current_trace():
            value = super()._find(variable)
            if variable in self.values:
                # What was assigned is not differentiated: the read starts anew.
                value = jnp.copy(value)
        self._reads.setdefault(variable, []).append(value)
        if jax_internals.is_staging(inside=self._recording):
            # Part of a program, which would keep the array as a constant.
            self._is_traced = True
            stack.spend_traces()
            return RecordedTracer(value, self._recording)
        return value

    @override
    def _forget_traces(self) -> None:
        # What is not read in a program of JAX is in none.
        if self._is_traced:
            super()._forget_traces()


def _listed(result: Any) -> Sequence[Any]:
    return result if isinstance(result, list | tuple) else [result]


def _require_known(source: Any) -> None:
    if not isinstance(source, jax.Array):
        raise ValueError(
            "A source of a gradient must be a variable or an array of JAX. Received: "
            f"{type(source).__name__}, whose uses JAX does not see. Make an array of "
            "it before the tape (`jnp.asarray`, `tf.convert_to_tensor`) and use that."
        )


def _added_up(gradients: dict[int, Any], numbers: Iterable[int]) -> Any:
    found = [gradients[number] for number in numbers if number in gradients]
    return functools.reduce(operator.add, found) if found else None


def _has_gradient(value: Any) -> bool:
    return bool(jnp.issubdtype(value.dtype, jnp.inexact))
