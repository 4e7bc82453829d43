"""Random numbers from a key, with TensorFlow's parameters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.dtypes import canonical
from mirrax.tf.tensors.tensor import sizes, tensor

Key = jax.Array


def uniform(key: Key, shape: Any, low: Any, high: Any, dtype: Any) -> Any:
    kind = canonical(dtype)
    if jnp.issubdtype(kind, jnp.integer):
        if high is None:
            raise ValueError(
                "Integers need an upper limit. Received: maxval=None for dtype "
                f"{kind}. Pass `maxval=`."
            )
        return jax.random.randint(key, sizes(shape), low or 0, high, kind)
    low = 0 if low is None else low
    high = 1 if high is None else high
    drawn = jax.random.uniform(key, sizes(shape), kind)
    return drawn * (tensor(high, kind) - tensor(low, kind)) + tensor(low, kind)


def normal(key: Key, shape: Any, mean: Any, stddev: Any, dtype: Any) -> Any:
    kind = canonical(dtype)
    drawn = jax.random.normal(key, sizes(shape), kind)
    return drawn * tensor(stddev, kind) + tensor(mean, kind)


def truncated_normal(key: Key, shape: Any, mean: Any, stddev: Any, dtype: Any) -> Any:
    """Returns normal numbers within two standard deviations of the mean."""
    kind = canonical(dtype)
    drawn = jax.random.truncated_normal(key, -2.0, 2.0, sizes(shape), kind)
    return drawn * tensor(stddev, kind) + tensor(mean, kind)


def categorical(key: Key, logits: Any, num_samples: int, dtype: Any) -> Any:
    logits = tensor(logits)
    drawn = jax.random.categorical(key, logits, shape=(int(num_samples), len(logits)))
    return drawn.T.astype(canonical(dtype))


def gamma(key: Key, shape: Any, alpha: Any, beta: Any, dtype: Any) -> Any:
    kind = canonical(dtype)
    alpha = tensor(alpha, kind)
    scale = 1 if beta is None else tensor(beta, kind)
    whole = (*sizes(shape), *jnp.broadcast_shapes(alpha.shape, jnp.shape(scale)))
    return jax.random.gamma(key, alpha, whole, kind) / scale


def poisson(key: Key, shape: Any, lam: Any, dtype: Any) -> Any:
    lam = tensor(lam)
    drawn = jax.random.poisson(key, lam, (*sizes(shape), *lam.shape))
    return drawn.astype(canonical(dtype))


def binomial(key: Key, shape: Any, counts: Any, probs: Any, dtype: Any) -> Any:
    counts, probs = tensor(counts), tensor(probs)
    drawn = jax.random.binomial(key, counts, probs, sizes(shape))
    return drawn.astype(canonical(dtype))


def shuffle(key: Key, value: Any) -> Any:
    return jax.random.permutation(key, tensor(value), axis=0)
