"""Normalization, moments and dropout."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mirrax.tf.exports import defined_after
from mirrax.tf.random.ambient import next_key
from mirrax.tf.tensors.tensor import axes as to_axes
from mirrax.tf.tensors.tensor import sizes, tensor

_PRIVATE = frozenset(globals())


def moments(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: Any = None
) -> tuple[Any, Any]:
    array = tensor(x)
    where = to_axes(axes)
    mean = jnp.mean(array, where, keepdims=keepdims)
    return mean, jnp.var(array, where, keepdims=keepdims)


def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, keepdims: bool = False, name: Any = None
) -> tuple[Any, Any]:
    array, where = tensor(x), to_axes(axes)
    weights = jnp.broadcast_to(tensor(frequency_weights), array.shape)
    total = jnp.sum(weights, where, keepdims=True)
    mean = jnp.sum(weights * array, where, keepdims=True) / total
    spread = jnp.sum(weights * jnp.square(array - mean), where, keepdims=True) / total
    if keepdims:
        return mean, spread
    return jnp.squeeze(mean, where), jnp.squeeze(spread, where)


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: float,
    name: Any = None,
) -> Any:
    inverse = lax.rsqrt(tensor(variance) + variance_epsilon)
    if scale is not None:
        inverse = inverse * tensor(scale)
    moved = -tensor(mean) * inverse
    return tensor(x) * inverse + (moved if offset is None else tensor(offset) + moved)


def bias_add(
    value: Any, bias: Any, data_format: str | None = None, name: Any = None
) -> Any:
    array, added = tensor(value), tensor(bias)
    if data_format is not None and data_format.startswith("NC"):
        return array + added.reshape(-1, *[1] * (array.ndim - 2))
    return array + added


def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1,
    alpha: float = 1,
    beta: float = 0.5,
    name: Any = None,
) -> Any:
    array = tensor(input)
    width = 2 * int(depth_radius) + 1
    window = (*[1] * (array.ndim - 1), width)
    around = [*[(0, 0)] * (array.ndim - 1), (int(depth_radius), int(depth_radius))]
    zero = np.array(0, array.dtype)
    squares = jnp.square(array)
    total = lax.reduce_window(squares, zero, lax.add, window, [1] * array.ndim, around)
    return array / (bias + alpha * total) ** beta


lrn = local_response_normalization


def dropout(
    x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: Any = None
) -> Any:
    """Sets random elements to zero and scales the others up."""
    array = tensor(x)
    if not isinstance(rate, jax.core.Tracer) and not 0 <= rate < 1:
        raise ValueError(
            f"`rate` must be at least 0 and below 1. Received: rate={rate}."
        )
    shape = array.shape if noise_shape is None else _shape(noise_shape, array)
    is_kept = jax.random.bernoulli(next_key(seed), 1.0 - rate, shape)
    return jnp.where(is_kept, array / (1 - rate), 0).astype(array.dtype)


def _shape(noise_shape: Any, array: Any) -> tuple[int, ...]:
    given = [-1 if size is None else size for size in noise_shape]
    pairs = zip(sizes(given), array.shape, strict=True)
    return tuple(size if want == -1 else want for want, size in pairs)


__all__ = list(defined_after(_PRIVATE, globals()))
