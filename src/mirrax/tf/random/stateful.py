"""Random numbers from the global seed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mirrax.tf.namespaces.exports import export
from mirrax.tf.random import drawing
from mirrax.tf.random.ambient import next_key
from mirrax.tf.random.stateless import key_of


def seeded(draw: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Returns a function of a key as two whose last parameter is a seed.

    The first one draws from the global seed, the second one is stateless.
    """
    last = len(inspect.signature(draw).parameters) - 1
    return _stateful(draw, last), drawing.taking_seed(draw, key_of, last)


def _stateful(draw: Callable[..., Any], position: int) -> Callable[..., Any]:
    return drawing.taking_seed(draw, next_key, position, default=None)


_PRIVATE = frozenset(globals())

categorical = _stateful(drawing.categorical, 3)
gamma = _stateful(drawing.gamma, 4)
normal = _stateful(drawing.normal, 4)
poisson = _stateful(drawing.poisson, 3)
shuffle = _stateful(drawing.shuffle, 1)
truncated_normal = _stateful(drawing.truncated_normal, 4)
uniform = _stateful(drawing.uniform, 4)

export(globals(), _PRIVATE)
