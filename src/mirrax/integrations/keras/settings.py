"""Settings of layers and optimizers that compiled steps depend on, as on variables.

A layer can be frozen, and an optimizer can get another schedule, after a step was
compiled. The step is then compiled once more, for the new setting.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import keras

from mirrax.integrations.keras import hooks, internals
from mirrax.variables.foreign_libraries import counters

OBJECTS = (keras.Layer, keras.Variable, keras.optimizers.Optimizer)
"""The objects of Keras that have settings."""

# Where an object keeps what its settings were at first, and the number of its schedule.
_FIRST = "_mirrax_first_settings"
_SCHEDULE = "_mirrax_schedule_number"

_schedule_numbers = itertools.count(1)


def install() -> None:
    """Notices changes of `trainable`, and of a schedule of the learning rate."""
    _watch(keras.Layer, "trainable", _trainable)
    _watch(keras.Variable, "trainable", _trainable)
    _watch(keras.optimizers.Optimizer, "learning_rate", _schedule)


def key_of(objects: Sequence[Any]) -> Hashable:
    """Returns the settings of objects that were changed after their creation."""
    return tuple(
        (index, *setting)
        for index, value in enumerate(objects)
        for setting in _changed_settings(value)
    )


def _changed_settings(value: Any) -> Iterator[tuple[Hashable, ...]]:
    """Yields the settings of an object, and of those in it, that have changed."""
    if isinstance(value, keras.optimizers.Optimizer):
        if _SCHEDULE in vars(value):
            yield ("learning_rate", vars(value)[_SCHEDULE])
        return
    parts = [value]
    if isinstance(value, keras.Layer):
        parts = [*internals.layers_of(value), *value.variables]
    for index, part in enumerate(parts):
        first = vars(part).get(_FIRST)
        if first is not None and part.trainable != first:
            yield (index, bool(part.trainable))


def _trainable(owner: Any, before: bool) -> bool:
    """Keeps the first value of `trainable`; returns whether it has changed."""
    vars(owner).setdefault(_FIRST, before)
    return bool(owner.trainable != before)


def _schedule(owner: Any, before: Any) -> bool:
    """Numbers a new schedule; returns whether there is one."""
    # Without the schedule itself, which may refer to the optimizer.
    is_new = callable(owner._learning_rate) and owner._learning_rate is not before
    if is_new:
        vars(owner)[_SCHEDULE] = next(_schedule_numbers)
    return is_new


def _watch(kind: type, name: str, note: Callable[[Any, Any], bool]) -> None:
    owner = hooks.defining_class(kind, name)
    setting: property = vars(owner)[name]
    set_original = setting.fset
    assert set_original is not None

    def set_and_note(self: Any, value: Any) -> None:
        before = getattr(self, f"_{name}", None)
        set_original(self, value)
        if note(self, before):
            counters.fingerprints += 1

    setattr(owner, name, setting.setter(set_and_note))
