"""The global generator of `tf.random.normal` and similar functions."""

from __future__ import annotations

import random
import weakref
from typing import Any

import jax

import mirrax


class _Ambient:
    """One generator of keys for each strategy, and one of datasets' seeds."""

    def __init__(self) -> None:
        self.seed = 0
        self.datasets: random.Random | None = None
        self.sources: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


_ambient = _Ambient()


def set_seed(seed: int | None) -> None:
    """Restarts all random numbers from a seed; None is the default seed, 0."""
    _ambient.seed = 0 if seed is None else int(seed)
    _ambient.sources.clear()
    _ambient.datasets = None if seed is None else random.Random(int(seed))


def next_dataset_seed() -> int | None:
    """Returns a seed that depends on that of `set_seed`; None if there is none."""
    return None if _ambient.datasets is None else _ambient.datasets.getrandbits(31)


def next_key(seed: Any = None) -> jax.Array:
    """Returns a new key for this replica.

    Args:
        seed: The seed of one operation, folded into the key.
    """
    strategy = mirrax.get_strategy()
    if strategy not in _ambient.sources:
        # Created inside a replica, its state is shared by all replicas.
        _ambient.sources[strategy] = mirrax.random.Generator(_ambient.seed)
    key: jax.Array = _ambient.sources[strategy].key()
    return key if seed is None else jax.random.fold_in(key, seed)
