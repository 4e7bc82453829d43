"""Random numbers from the seed of the program."""

from __future__ import annotations

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


def normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: Any = None,
    name: Any = None,
) -> Any:
    return drawing.normal(next_key(seed), shape, mean, stddev, dtype)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: Any = None,
    name: Any = None,
) -> Any:
    return drawing.truncated_normal(next_key(seed), shape, mean, stddev, dtype)


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
