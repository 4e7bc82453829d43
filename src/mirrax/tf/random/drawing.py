"""Random numbers from a key, with TensorFlow's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.dtypes import canonical, float32, int32, int64
from mirrax.tf.tensors.tensor import sizes, tensor

Key = jax.Array


def taking_seed(
    draw: Callable[..., Any],
    key_of: Callable[[Any], Key],
    position: int,
    default: Any = inspect.Parameter.empty,
) -> Callable[..., Any]:
    """Returns one of these functions with a seed in place of the key.

    Args:
        draw: The function.
        key_of: Returns the key of a seed.
        position: Where the parameter `seed` stands.
        default: Its default; by default, it must be given.
    """
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    _, *parameters = inspect.signature(draw).parameters.values()
    parameters.insert(position, inspect.Parameter("seed", kind, default=default))
    # Accepted, without effect.
    extra = [inspect.Parameter(name, kind, default=None) for name in ("name", "alg")]
    signature = inspect.Signature([*parameters, *extra])

    def drawn(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        key = key_of(given.pop("seed", None))
        return draw(key, **{x: given[x] for x in given if x not in ("name", "alg")})

    drawn.__signature__ = signature  # type: ignore[attr-defined]
    return drawn


def uniform(
    key: Key, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = float32
) -> Any:
    kind = canonical(dtype)
    if jnp.issubdtype(kind, jnp.integer):
        if maxval is None:
            raise ValueError(
                "Integers need an upper limit. Received: maxval=None for dtype "
                f"{kind}. Pass `maxval=`."
            )
        return jax.random.randint(key, sizes(shape), minval or 0, maxval, kind)
    low = 0 if minval is None else minval
    high = 1 if maxval is None else maxval
    drawn = jax.random.uniform(key, sizes(shape), kind)
    return drawn * (tensor(high, kind) - tensor(low, kind)) + tensor(low, kind)


def normal(
    key: Key, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32
) -> Any:
    kind = canonical(dtype)
    drawn = jax.random.normal(key, sizes(shape), kind)
    return drawn * tensor(stddev, kind) + tensor(mean, kind)


def truncated_normal(
    key: Key, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32
) -> Any:
    """Returns normal numbers within two standard deviations of the mean."""
    kind = canonical(dtype)
    drawn = jax.random.truncated_normal(key, -2.0, 2.0, sizes(shape), kind)
    return drawn * tensor(stddev, kind) + tensor(mean, kind)


def categorical(key: Key, logits: Any, num_samples: int, dtype: Any = None) -> Any:
    logits = tensor(logits)
    drawn = jax.random.categorical(key, logits, shape=(int(num_samples), len(logits)))
    return drawn.T.astype(canonical(dtype or int64))


def gamma(
    key: Key, shape: Any, alpha: Any, beta: Any = None, dtype: Any = float32
) -> Any:
    kind = canonical(dtype)
    alpha = tensor(alpha, kind)
    scale = 1 if beta is None else tensor(beta, kind)
    whole = (*sizes(shape), *jnp.broadcast_shapes(alpha.shape, jnp.shape(scale)))
    return jax.random.gamma(key, alpha, whole, kind) / scale


def poisson(key: Key, shape: Any, lam: Any, dtype: Any = float32) -> Any:
    lam = tensor(lam)
    drawn = jax.random.poisson(key, lam, (*sizes(shape), *lam.shape))
    return drawn.astype(canonical(dtype))


def binomial(key: Key, shape: Any, counts: Any, probs: Any, dtype: Any = int32) -> Any:
    counts, probs = tensor(counts), tensor(probs)
    drawn = jax.random.binomial(key, counts, probs, sizes(shape))
    return drawn.astype(canonical(dtype))


def shuffle(key: Key, value: Any) -> Any:
    return jax.random.permutation(key, tensor(value), axis=0)
