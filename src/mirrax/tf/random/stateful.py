"""Random numbers from the global seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrax.tf.exports import export
from mirrax.tf.random import drawing
from mirrax.tf.random.ambient import next_key

_PRIVATE = frozenset(globals())


def _stateful(draw: Callable[..., Any], position: int) -> Callable[..., Any]:
    return drawing.taking_seed(draw, next_key, position, default=None)


categorical = _stateful(drawing.categorical, 3)
gamma = _stateful(drawing.gamma, 4)
normal = _stateful(drawing.normal, 4)
poisson = _stateful(drawing.poisson, 3)
shuffle = _stateful(drawing.shuffle, 1)
truncated_normal = _stateful(drawing.truncated_normal, 4)
uniform = _stateful(drawing.uniform, 4)

export(globals(), _PRIVATE)
