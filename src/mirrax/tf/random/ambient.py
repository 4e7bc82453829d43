"""The generator behind `tf.random.normal` and its like."""

from __future__ import annotations

import weakref
from typing import Any

import jax

import mirrax


class _Ambient:
    """One source of keys for each strategy, all from one seed."""

    def __init__(self) -> None:
        self.seed = 0
        self.sources: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


_ambient = _Ambient()


def set_seed(seed: int) -> None:
    """Starts all random numbers anew; without it, the seed is 0."""
    _ambient.seed = int(seed)
    _ambient.sources.clear()


def next_key(seed: Any = None) -> jax.Array:
    """Returns a key of this replica's own, which was not used before.

    Args:
        seed: The seed of one operation, which sets it apart from the others.
    """
    strategy = mirrax.get_strategy()
    if strategy not in _ambient.sources:
        # Made inside a replica, its state becomes one that all replicas share.
        _ambient.sources[strategy] = mirrax.random.Generator(_ambient.seed)
    key: jax.Array = _ambient.sources[strategy].key()
    return key if seed is None else jax.random.fold_in(key, seed)
