"""Random numbers from the global seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrax.tf.dtypes import float32, int64
from mirrax.tf.random import drawing
from mirrax.tf.random.ambient import next_key

__all__ = [
    "categorical",
    "gamma",
    "normal",
    "poisson",
    "shuffle",
    "truncated_normal",
    "uniform",
]


def uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    seed: Any = None,
    name: Any = None,
) -> Any:
    return drawing.uniform(next_key(seed), shape, minval, maxval, dtype)


def _around_mean(draw: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = float32,
        seed: Any = None,
        name: Any = None,
    ) -> Any:
        return draw(next_key(seed), shape, mean, stddev, dtype)

    return drawn


normal = _around_mean(drawing.normal)
truncated_normal = _around_mean(drawing.truncated_normal)


def categorical(
    logits: Any, num_samples: int, dtype: Any = None, seed: Any = None, name: Any = None
) -> Any:
    return drawing.categorical(next_key(seed), logits, num_samples, dtype or int64)


def gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = float32,
    seed: Any = None,
    name: Any = None,
) -> Any:
    return drawing.gamma(next_key(seed), shape, alpha, beta, dtype)


def poisson(
    shape: Any, lam: Any, dtype: Any = float32, seed: Any = None, name: Any = None
) -> Any:
    return drawing.poisson(next_key(seed), shape, lam, dtype)


def shuffle(value: Any, seed: Any = None, name: Any = None) -> Any:
    return drawing.shuffle(next_key(seed), value)
