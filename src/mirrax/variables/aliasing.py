"""What users may hold of the arrays of variables, and so must not be overwritten."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from mirrax._jax.arrays import donated_error

lock = threading.RLock()
"""Held while a program runs on variables, and while their arrays are read."""

turn = threading.RLock()
"""Held, from reading variables to writing them, by a program with callbacks that does
both. It lets go of `lock` while it runs. Taken before `lock`, never in a callback."""

_views: dict[int, weakref.ref[jax.Array]] = {}


class Ledger:
    """Counts what programs must look at, so that most of them need not look.

    Attributes:
        count: How often a variable was lent.
        moves: How often variables were put into another place.
    """

    count = 0
    moves = 0


ledger = Ledger()


def mark(variable: Any) -> None:
    """Notes that the user may hold the stored array of `variable`, or a part of it."""
    variable.is_lent = True
    ledger.count += 1


def require_alive(variable: Any, array: Any) -> None:
    """Raises if a program of the user's own has overwritten the array of `variable`.

    XLA would end the process where only the copy on one device is gone.
    """
    is_deleted = getattr(array, "is_deleted", None)
    if is_deleted is not None and is_deleted():
        raise donated_error(
            f"the array of variable '{variable.name}', which `variable.value` shares, "
            "or which a program was changing that failed in XLA",
            "Donate a copy, `jnp.copy(variable.value)`; and `assign` the variable a "
            "new value.",
        )


def loss_of(names: Sequence[str]) -> str:
    """Returns the note for the error of a program that has cost variables their values.

    XLA says so when it runs the program, which may be after the call.
    """
    return (
        f"[mirrax] the values of {', '.join(map(repr, names))} are lost, because a "
        "program that changes them failed in XLA. Restore a checkpoint, or `assign` "
        "new values"
    )


def register(view: jax.Array) -> jax.Array:
    """Returns `view`, remembered as one that shares its memory with a variable."""
    number = id(view)
    _views[number] = weakref.ref(view, lambda _: _views.pop(number, None))
    return view


def is_view(array: object) -> bool:
    """Returns whether `array` shares its memory with a variable."""
    reference = _views.get(id(array))
    return reference is not None and reference() is array


def has_views(numbers: Iterable[int]) -> bool:
    """Returns whether one of these identities may be that of such an array."""
    return any(map(_views.__contains__, numbers))
