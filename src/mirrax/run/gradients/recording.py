"""Records what is computed in the block of a `GradientTape`.

Every operation is evaluated as usual, also in a trace, and recorded with its inputs and
outputs, which are told apart by their `id`. For a gradient, the operations on the paths
from the sources to the target are replayed under `jax.vjp`. In a program, their new
outputs then take the place of the recorded ones (`tape_marks`).
"""

from __future__ import annotations

import contextlib
import functools
import operator
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad
from typing_extensions import override

from mirrax._jax.jaxpr_types import AbstractRef
from mirrax._jax.jaxprs import Primitive
from mirrax._jax.tape_trace import RecordedTracer, RecordingTrace, is_recorded
from mirrax._jax.traces import is_staging, set_current_trace
from mirrax.context import stack
from mirrax.run.gradients.tape_marks import mark_recomputed, renamed_p
from mirrax.variables import foreign_libraries, replica_writes
from mirrax.variables.overlay import Overlay, ValueOverlay
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Variable


class Step(NamedTuple):
    """One operation with its arrays, kept alive so that their ids are unique."""

    operation: Callable[..., Any]
    inputs: Sequence[Any]
    outputs: Sequence[Any]


class Recording:
    """The operations of a `with` block, and the variables that were read in it.

    Args:
        watches_trainable: Whether trainable variables are watched without being asked.

    Attributes:
        watched: The other variables that are watched, from now on.
        reads: The values of watched variables, in the order of their reads.
    """

    def __init__(self, watches_trainable: bool) -> None:
        self.steps: list[Step] = []
        self.watched: dict[Variable, None] = {}
        self.reads: dict[Variable, list[Any]] = {}
        self.is_paused = False
        self._watches_trainable = watches_trainable
        self._is_entered = False
        self._entered = contextlib.ExitStack()

    def start(self) -> None:
        if self._is_entered:
            raise ValueError(
                "Tape is still recording, so it cannot be entered. Received: a second "
                "`with` of a tape that is already recording. Create another tape."
            )
        self._is_entered = True
        outer = stack.overlay()
        trace = RecordingTrace(self._record, self._read)
        place = stack.tape_trace_key() if outer is None or outer.is_eager else None
        self._entered.enter_context(foreign_libraries.routed())
        self._entered.enter_context(set_current_trace(trace))
        self._overlay = _Reads(self, trace, outer)
        self._entered.enter_context(stack.overlaid(self._overlay, place))

    def stop(self) -> None:
        """Stops, and passes on what was assigned to variables."""
        self._entered.close()
        self._is_entered = False
        overlay = self._overlay
        # Breaks a reference cycle, so that recorded arrays are freed with the tape.
        del self._overlay
        written = {variable: overlay.values[variable] for variable in overlay.written}
        replica_writes.propagate_writes(written)

    def forget(self) -> None:
        self.steps.clear()
        self.watched.clear()
        self.reads.clear()

    def record_read(self, variable: Variable, value: Any) -> None:
        is_watched = self._watches_trainable and variable.trainable
        if not is_watched and variable not in self.watched:
            return
        values = self.reads.setdefault(variable, [])
        if not values or values[-1] is not value:
            values.append(value)

    def values_of(self, source: Any) -> Sequence[Any]:
        """Returns the values that a variable had, or the array itself."""
        return self.reads.get(source, ()) if isinstance(source, Variable) else [source]

    def gradients(
        self, weigh: Callable[[list[Any]], Any], targets: Sequence[Any], sources: Any
    ) -> list[Any]:
        """Returns the derivatives of `weigh(targets)`, None where there is no path.

        Args:
            weigh: Makes one number, or one array, of the values of the targets.
            targets: Arrays that came out of operations.
            sources: For each source the arrays that stand for it.
        """
        flat = [x for group in sources for x in group]
        for array in flat:
            _require_known(array)
        arrays = {id(x): x for x in flat if jnp.issubdtype(x.dtype, jnp.inexact)}
        kept, reached = self._between(set(arrays), targets)
        # A source that was computed from others passes theirs on, and a change of its
        # own, which is 0.
        computed = reached.intersection(id(x) for step in kept for x in step.outputs)
        known = {
            number: jnp.zeros_like(x) if number in computed else x
            for number, x in arrays.items()
            if number in reached
        }

        made = [x for step in kept for x in step.outputs]
        is_nested = is_recorded()

        def forward(given: dict[int, Any]) -> tuple[Any, list[Any]]:
            values = {n: value for n, value in given.items() if n not in computed}
            for step in kept:
                inputs = [values.get(id(x), x) for x in step.inputs]
                for old, new in zip(step.outputs, _as_list(step.operation(*inputs))):
                    own = given.get(id(old))
                    value = new if own is None else new + own
                    values[id(old)] = _tied(value, old) if is_nested else value
            total = weigh([values.get(id(x), x) for x in targets])
            return total, [values[id(x)] for x in made]

        total, backward, recomputed = jax.vjp(forward, known, has_aux=True)
        if is_staging() and not is_nested:
            mark_recomputed(made, recomputed)
        del recomputed
        found = _derivatives(total, lambda weights: backward(weights)[0])
        return [_added_up(found, map(id, group)) for group in sources]

    def _read(self, reference: weakref.ref[Variable]) -> Any:
        """Returns the value of a variable that a program of JAX asks for."""
        variable = reference()
        if variable is None:
            raise RuntimeError(
                "A function of jax.jit reads the variables that it read when it was "
                "traced. Received: a call inside a `GradientTape` after one of them "
                "was deleted. Use `@mirrax.function`, or jit the function again."
            )
        return self._overlay.read(variable)

    def _record(
        self, operation: Callable[..., Any], inputs: Sequence[Any], result: Any
    ) -> Any:
        given = set(map(id, inputs))
        # Copy outputs that alias inputs, because ids tell arrays apart.
        outputs = [renamed_p.bind(x) if id(x) in given else x for x in _as_list(result)]
        if not self.is_paused:
            self.steps.append(Step(operation, inputs, outputs))
        return outputs if isinstance(result, list | tuple) else outputs[0]

    def _between(
        self, sources: set[int], targets: Sequence[Any]
    ) -> tuple[list[Step], set[int]]:
        """Returns the steps on paths to the targets, and the sources they reach."""
        depending = set(sources)
        forward = []
        for step in self.steps:
            is_reached = not depending.isdisjoint(map(id, step.inputs))
            if is_reached and any(map(_is_reference, step.inputs)):
                raise TypeError(
                    "A tape does not follow values through a `jax.Ref`. Received: one "
                    "that holds what depends on a source. Use `mirrax.value_and_grad` "
                    "or `jax.grad`, or compute without it."
                )
            if is_reached and not _is_constant(step):
                forward.append(step)
                depending.update(map(id, step.outputs))
        needed = set(map(id, targets))
        kept = []
        for step in reversed(forward):
            if not needed.isdisjoint(map(id, step.outputs)):
                kept.append(step)
                needed.update(map(id, step.inputs))
        return kept[::-1], needed.intersection(sources)


def _is_reference(value: Any) -> bool:
    return isinstance(jax.typeof(value), AbstractRef)


def _is_constant(step: Step) -> bool:
    """Returns whether the derivatives of an operation are 0: its sources get None."""
    primitive = getattr(step.operation, "primitive", None)
    is_stopped = getattr(primitive, "name", None) == "stop_gradient"
    dtypes = [getattr(output, "dtype", np.bool_) for output in step.outputs]
    return is_stopped or not any(jnp.issubdtype(d, jnp.inexact) for d in dtypes)


_tied_p = Primitive("tape_tied")
_tied_p.def_impl(lambda _, old: old)
_tied_p.def_abstract_eval(lambda _, old: old)
ad.primitive_jvps[_tied_p] = lambda values, tangents: (values[1], tangents[0])


def _tied(new: Any, old: Any) -> Any:
    """Returns `old` with the derivative of `new`, which is the same computed again.

    So a gradient depends on what was recorded, for the tapes around this one.
    """
    return _tied_p.bind(new, old)


def _derivatives(value: Any, backward: Callable[[Any], Any]) -> Any:
    """Returns the gradient of a number, or those of each element of an array."""
    if not value.ndim:
        return backward(jnp.ones_like(value))
    basis = jnp.eye(value.size, dtype=value.dtype).reshape(value.size, *value.shape)
    return jax.tree.map(
        lambda rows: rows.reshape(*value.shape, *rows.shape[1:]),
        jax.vmap(backward)(basis),
    )


class _Reads(ValueOverlay):
    """Reads variables, and tells the tape which arrays it returned."""

    def __init__(
        self, recording: Recording, trace: RecordingTrace, parent: Overlay | None
    ) -> None:
        super().__init__({}, parent)
        self._recording = recording
        self._recording_trace = trace
        self.has_derivative = parent is not None and parent.has_derivative

    @override
    def knows(self, variable: Variable) -> bool:
        # A sync-on-read variable combines its copies outside of the recording.
        is_local = isinstance(stack.frame(), stack.Replica)
        is_combined = isinstance(variable, SyncOnReadVariable) and not is_local
        return super().knows(variable) or not is_combined

    @override
    def read(self, variable: Variable) -> jax.Array:
        is_in_program = is_staging(inside=self._recording_trace)
        with set_current_trace(self._recording_trace.parent_trace):
            value = super().read(variable)
            if is_in_program:
                # Read again on each call, so that JAX can cache the program.
                return RecordedTracer(weakref.ref(variable), value)
            if variable in self.values or isinstance(value, jax.core.Tracer):
                # Gradients reach neither through what was assigned, nor to earlier
                # uses of the value in a program, which reads it once.
                value = renamed_p.bind(value)
        self._recording.record_read(variable, value)
        return value

    @override
    def _invalidate_traces(self) -> None:
        pass


def _as_list(result: Any) -> Sequence[Any]:
    return result if isinstance(result, list | tuple) else [result]


def _require_known(source: Any) -> None:
    if not isinstance(source, jax.Array):
        raise ValueError(
            "A source of a gradient must be a variable or an array of JAX. Received: "
            f"{type(source).__name__}, whose uses JAX does not see. Make an array of "
            "it before the tape (`jnp.asarray`, `tf.convert_to_tensor`) and use that."
        )


def _added_up(gradients: Mapping[int, Any], numbers: Iterable[int]) -> Any:
    """Returns the sum of the gradients with these numbers; None if there are none."""
    found = [gradients[n] for n in dict.fromkeys(numbers) if n in gradients]
    return functools.reduce(operator.add, found) if found else None
