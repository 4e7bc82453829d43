"""Settings of layers and optimizers that compiled steps depend on, as on variables.

A layer can be frozen, and an optimizer can get another schedule, after a step was
compiled. The step is then compiled once more, for the new setting.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import keras

from mirrax.integrations.keras import hooks
from mirrax.trees import IdentityKey
from mirrax.variables.foreign_libraries import counters

# By the identity of a living object and the name of its setting.
_changed: dict[tuple[int, str], Hashable] = {}


def install() -> None:
    """Notices changes of `trainable`, and of a schedule of the learning rate."""
    _watch(keras.Layer, "trainable", bool)
    _watch(keras.Variable, "trainable", bool)
    _watch(keras.optimizers.Optimizer, "learning_rate", _schedule)


def changed_settings() -> Hashable:
    """Returns a key for all settings that were changed after an object's creation."""
    return frozenset(_changed.items())


def _schedule(learning_rate: Any) -> Hashable:
    # A number is stored in a variable.
    return IdentityKey(learning_rate) if callable(learning_rate) else None


def _watch(kind: type, name: str, key_of: Callable[[Any], Hashable]) -> None:
    owner = hooks.defining_class(kind, name)
    setting: property = vars(owner)[name]
    set_original = setting.fset
    assert set_original is not None

    def set_and_note(self: Any, value: Any) -> None:
        set_original(self, value)
        _note((id(self), name), key_of(value), self)

    setattr(owner, name, setting.setter(set_and_note))


def _note(place: tuple[int, str], key: Hashable, owner: Any) -> None:
    known = _changed.get(place)
    if key == known:
        return
    if known is None:
        weakref.finalize(owner, _changed.pop, place, None).atexit = False
    _changed[place] = key
    counters.fingerprints += 1
