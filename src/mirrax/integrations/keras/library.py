"""Keras variables in traces, gradients and checkpoints."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import keras
from typing_extensions import override

from mirrax.integrations.keras import restoring
from mirrax.integrations.keras.variables import proxy_of, read_whole, write_whole
from mirrax.variables.foreign_libraries import Library, SavedArray, Sources


class KerasLibrary(Library):
    """The integration of Keras, whose hooks are always installed."""

    @property
    @override
    def leaf_types(self) -> tuple[type, ...]:
        return (keras.Variable,)

    @override
    def routed(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    @override
    def saved_arrays_of(self, value: Any) -> dict[str, SavedArray] | None:
        if isinstance(value, keras.Variable):
            return {"": _kept(value)}
        if isinstance(value, keras.optimizers.Optimizer):
            return _numbered(value)
        if not isinstance(value, keras.Layer | keras.metrics.Metric):
            return None
        found = _numbered(value)
        optimizer = getattr(value, "optimizer", None)
        if optimizer is not None:
            slots = _numbered(optimizer)
            found.update({f"optimizer/{name}": kept for name, kept in slots.items()})
        return found

    @override
    def when_complete(self, value: Any, then: Callable[[], bool]) -> None:
        if isinstance(value, keras.Layer | keras.optimizers.Optimizer):
            restoring.when_complete(value, then)

    @override
    def sources(self, value: Any) -> Sources | None:
        if not isinstance(value, keras.Variable):
            return None
        return Sources([proxy_of(value)], lambda gradients: gradients[0])


def _kept(variable: Any) -> SavedArray:
    return SavedArray(
        functools.partial(read_whole, variable),
        functools.partial(write_whole, variable),
    )


def _numbered(value: Any) -> dict[str, SavedArray]:
    """Returns the variables by number, because Keras' names depend on name counters.

    Returns none while some are missing.
    """
    if not restoring.is_complete(value):
        return {}
    return {
        str(index): _kept(variable) for index, variable in enumerate(value.variables)
    }
