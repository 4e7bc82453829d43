"""Which arrays are views of variables, and so must not be given away."""

from __future__ import annotations

import weakref

import jax

_views: dict[int, weakref.ref[jax.Array]] = {}


def register(view: jax.Array) -> jax.Array:
    """Returns `view`, remembered as one that shares its memory with a variable."""
    number = id(view)
    _views[number] = weakref.ref(view, lambda _: _views.pop(number, None))
    return view


def is_view(array: object) -> bool:
    """Returns whether `array` shares its memory with a variable."""
    reference = _views.get(id(array))
    return reference is not None and reference() is array
