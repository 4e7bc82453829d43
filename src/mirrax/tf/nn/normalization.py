"""Normalization, moments and dropout."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.random.ambient import next_key
from mirrax.tf.tensors.tensor import axes as to_axes
from mirrax.tf.tensors.tensor import sizes, tensor

_PRIVATE = frozenset(globals())


def moments(
    x: Array, axes: Any, shift: Any = None, keepdims: bool = False
) -> tuple[Any, Any]:
    where = to_axes(axes)
    mean = jnp.mean(x, where, keepdims=keepdims)
    return mean, jnp.var(x, where, keepdims=keepdims)


def weighted_moments(
    x: Array, axes: Any, frequency_weights: Array, keepdims: bool = False
) -> tuple[Any, Any]:
    where = to_axes(axes)
    weights = jnp.broadcast_to(frequency_weights, x.shape)
    total = jnp.sum(weights, where, keepdims=True)
    mean = jnp.sum(weights * x, where, keepdims=True) / total
    spread = jnp.sum(weights * jnp.square(x - mean), where, keepdims=True) / total
    if keepdims:
        return mean, spread
    return jnp.squeeze(mean, where), jnp.squeeze(spread, where)


def batch_normalization(
    x: Array,
    mean: Array,
    variance: Array,
    offset: Any,
    scale: Any,
    variance_epsilon: float,
) -> Any:
    inverse = lax.rsqrt(variance + variance_epsilon)
    if scale is not None:
        inverse = inverse * tensor(scale)
    moved = -mean * inverse
    return x * inverse + (moved if offset is None else tensor(offset) + moved)


def bias_add(value: Array, bias: Array, data_format: str | None = None) -> Any:
    if data_format is not None and data_format.startswith("NC"):
        return value + bias.reshape(-1, *[1] * (value.ndim - 2))
    return value + bias


def local_response_normalization(
    input: Array,
    depth_radius: int = 5,
    bias: float = 1,
    alpha: float = 1,
    beta: float = 0.5,
) -> Any:
    width = 2 * int(depth_radius) + 1
    window = (*[1] * (input.ndim - 1), width)
    around = [*[(0, 0)] * (input.ndim - 1), (int(depth_radius), int(depth_radius))]
    zero = np.array(0, input.dtype)
    squares = jnp.square(input)
    total = lax.reduce_window(squares, zero, lax.add, window, [1] * input.ndim, around)
    return input / (bias + alpha * total) ** beta


lrn = local_response_normalization


def dropout(x: Array, rate: Any, noise_shape: Any = None, seed: Any = None) -> Any:
    """Sets random elements to zero and scales the others up."""
    if not isinstance(rate, jax.core.Tracer) and not 0 <= rate < 1:
        raise ValueError(
            f"`rate` must be at least 0 and below 1. Received: rate={rate}."
        )
    shape = x.shape if noise_shape is None else _shape(noise_shape, x)
    is_kept = jax.random.bernoulli(next_key(seed), 1.0 - rate, shape)
    return jnp.where(is_kept, x / (1 - rate), 0).astype(x.dtype)


def _shape(noise_shape: Any, array: Any) -> tuple[int, ...]:
    given = [-1 if size is None else size for size in noise_shape]
    pairs = zip(sizes(given), array.shape, strict=True)
    return tuple(size if want == -1 else want for want, size in pairs)


operations(globals(), _PRIVATE)
