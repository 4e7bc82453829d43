"""Random numbers from a seed of two integers: the same seed gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.dtypes import float32, int32, int64
from mirrax.tf.random import drawing
from mirrax.tf.tensors.tensor import tensor

__all__ = [
    "fold_in",
    "key_of",
    "split",
    "stateless_binomial",
    "stateless_categorical",
    "stateless_gamma",
    "stateless_normal",
    "stateless_poisson",
    "stateless_shuffle",
    "stateless_truncated_normal",
    "stateless_uniform",
]


def stateless_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    name: Any = None,
    alg: Any = "auto_select",
) -> Any:
    return drawing.uniform(key_of(seed), shape, minval, maxval, dtype)


def _around_mean(draw: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(
        shape: Any,
        seed: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = float32,
        name: Any = None,
        alg: Any = "auto_select",
    ) -> Any:
        return draw(key_of(seed), shape, mean, stddev, dtype)

    return drawn


stateless_normal = _around_mean(drawing.normal)
stateless_truncated_normal = _around_mean(drawing.truncated_normal)


def stateless_categorical(
    logits: Any, num_samples: int, seed: Any, dtype: Any = int64, name: Any = None
) -> Any:
    return drawing.categorical(key_of(seed), logits, num_samples, dtype)


def stateless_gamma(
    shape: Any,
    seed: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = float32,
    name: Any = None,
) -> Any:
    return drawing.gamma(key_of(seed), (), jnp.broadcast_to(alpha, shape), beta, dtype)


def stateless_poisson(
    shape: Any, seed: Any, lam: Any, dtype: Any = int32, name: Any = None
) -> Any:
    lam = jnp.broadcast_to(tensor(lam), tuple(shape))
    return drawing.poisson(key_of(seed), (), lam, dtype)


def stateless_binomial(
    shape: Any,
    seed: Any,
    counts: Any,
    probs: Any,
    output_dtype: Any = int32,
    name: Any = None,
) -> Any:
    return drawing.binomial(key_of(seed), shape, counts, probs, output_dtype)


def stateless_shuffle(
    value: Any, seed: Any, alg: Any = "auto_select", name: Any = None
) -> Any:
    return drawing.shuffle(key_of(seed), value)


def split(seed: Any, num: int = 2, alg: Any = "auto_select") -> Any:
    """Returns `num` new seeds."""
    return _seeds(jax.random.split(key_of(seed), num))


def fold_in(seed: Any, data: Any, alg: Any = "auto_select") -> Any:
    """Returns a new seed that also depends on the integer `data`."""
    return _seeds(jax.random.fold_in(key_of(seed), data))


def key_of(seed: Any) -> jax.Array:
    """Returns the JAX key of a seed of two integers."""
    seed = tensor(seed)
    if seed.shape != (2,):
        raise ValueError(
            "`seed` must be two integers. Received: a seed of shape "
            f"{tuple(seed.shape)}. Use `seed=[1, 2]`."
        )
    return jax.random.fold_in(jax.random.key(seed[0]), seed[1])


def _seeds(keys: jax.Array) -> jax.Array:
    return jax.random.key_data(keys).astype(jnp.int32)
