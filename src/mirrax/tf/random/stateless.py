"""Random numbers from a seed of two integers: the same seed gives the same numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.dtypes import float32, int32
from mirrax.tf.namespaces.exports import export
from mirrax.tf.random import drawing
from mirrax.tf.tensors.tensor import tensor


def key_of(seed: Any) -> jax.Array:
    """Returns the JAX key of a seed of two integers."""
    seed = tensor(seed)
    if seed.shape != (2,):
        raise ValueError(
            "`seed` must be two integers. Received: a seed of shape "
            f"{tuple(seed.shape)}. Use `seed=[1, 2]`."
        )
    return jax.random.fold_in(jax.random.key(seed[0]), seed[1])


# `shape` is that of the result here, and the other arguments are broadcast to it.


def _gamma(
    key: Any, shape: Any, alpha: Any, beta: Any = None, dtype: Any = float32
) -> Any:
    return drawing.gamma(key, (), jnp.broadcast_to(alpha, shape), beta, dtype)


def _poisson(key: Any, shape: Any, lam: Any, dtype: Any = int32) -> Any:
    lam = jnp.broadcast_to(tensor(lam), tuple(shape))
    return drawing.poisson(key, (), lam, dtype)


def _binomial(
    key: Any, shape: Any, counts: Any, probs: Any, output_dtype: Any = int32
) -> Any:
    return drawing.binomial(key, shape, counts, probs, output_dtype)


_PRIVATE = frozenset(globals())

stateless_binomial = drawing.taking_seed(_binomial, key_of, 1)
stateless_categorical = drawing.taking_seed(drawing.categorical, key_of, 2)
stateless_gamma = drawing.taking_seed(_gamma, key_of, 1)
stateless_normal = drawing.taking_seed(drawing.normal, key_of, 1)
stateless_poisson = drawing.taking_seed(_poisson, key_of, 1)
stateless_shuffle = drawing.taking_seed(drawing.shuffle, key_of, 1)
stateless_truncated_normal = drawing.taking_seed(drawing.truncated_normal, key_of, 1)
stateless_uniform = drawing.taking_seed(drawing.uniform, key_of, 1)


def split(seed: Any, num: int = 2, alg: Any = "auto_select") -> Any:
    """Returns `num` new seeds."""
    return _seeds(jax.random.split(key_of(seed), num))


def fold_in(seed: Any, data: Any, alg: Any = "auto_select") -> Any:
    """Returns a new seed that also depends on the integer `data`."""
    return _seeds(jax.random.fold_in(key_of(seed), data))


def _seeds(keys: jax.Array) -> jax.Array:
    return jax.random.key_data(keys).astype(jnp.int32)


export(globals(), _PRIVATE)
