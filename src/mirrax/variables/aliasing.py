"""Tracks which arrays of variables the user may hold, so that none is overwritten."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax

from mirrax._jax.arrays import donated_error

lock = threading.RLock()
"""Held while a program runs on variables, and while their arrays are read."""

callback_lock = threading.RLock()
"""Held by a program with callbacks that both reads and writes variables.

Such a program releases `lock` while it runs. Acquire this one before `lock`, and never
in a callback.
"""


@contextlib.contextmanager
def lock_released() -> Iterator[None]:
    """Releases `lock` for the `with` block, because callbacks may read variables."""
    lock.release()
    try:
        yield
    finally:
        lock.acquire()


_views: dict[int, weakref.ref[jax.Array]] = {}


class Counters:
    """Lets programs skip their checks of variables while nothing has changed.

    Attributes:
        aliased: How often an array of a variable was given to the user.
        moves: How often variables were moved to another slot.
    """

    aliased = 0
    moves = 0


counters = Counters()


def mark_aliased(variable: Any) -> None:
    """Records that the user may hold the stored array of `variable`, or a view."""
    variable.is_aliased = True
    counters.aliased += 1


def require_alive(variable: Any, array: Any) -> None:
    """Raises if the array of `variable` was donated to a program of the user.

    XLA would end the process if only the copy on one device is deleted.
    """
    is_deleted = getattr(array, "is_deleted", None)
    if is_deleted is not None and is_deleted():
        raise donated_error(
            f"the array of variable '{variable.name}', donated through "
            "`variable.value`, or lost in a program that failed in XLA",
            "Donate a copy, `jnp.copy(variable.value)`; and `assign` the variable a "
            "new value.",
        )


def lost_values_note(names: Sequence[str]) -> str:
    """Returns the note for the error of a program that failed after donation.

    XLA may report the failure only after the call.
    """
    return (
        f"[mirrax] the values of {', '.join(map(repr, names))} are lost, because a "
        "program that changes them failed in XLA. Restore a checkpoint, or `assign` "
        "new values"
    )


def track_view(view: jax.Array) -> jax.Array:
    """Returns `view`, tracked as an array that shares memory with a variable."""
    number = id(view)
    _views[number] = weakref.ref(view, lambda _: _views.pop(number, None))
    return view


def is_view(array: object) -> bool:
    """Returns whether `array` shares its memory with a variable."""
    reference = _views.get(id(array))
    return reference is not None and reference() is array


def has_views(ids: Iterable[int]) -> bool:
    """Returns whether one of these `id()`s may be that of a tracked view."""
    return any(map(_views.__contains__, ids))
