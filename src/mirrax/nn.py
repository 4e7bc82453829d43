"""Small helpers for losses and normalization over all replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.context import stack
from mirrax.options import ReduceOp


def compute_average_loss(
    per_example_loss: Any,
    sample_weight: Any = None,
    global_batch_size: Any = None,
) -> jax.Array:
    """Returns this replica's share of the mean loss over the global batch.

    The shares of all replicas add up to the mean over all examples, also if replicas
    have different numbers of them.

    Args:
        per_example_loss: One loss for each example, along the first axis.
        sample_weight: Weights, one for each example.
        global_batch_size: How many examples all replicas have together; by default
            they are counted.

    >>> float(compute_average_loss(jnp.array([1.0, 3.0])))
    2.0
    >>> float(compute_average_loss(jnp.array([1.0, 3.0]), global_batch_size=8))
    0.5
    """
    loss = _as_float(per_example_loss)
    if loss.ndim == 0:
        raise ValueError(
            "`per_example_loss` must have one loss per example. Received: a scalar. "
            "Compute the loss without a reduction."
        )
    rows = loss.shape[0]
    if sample_weight is not None:
        weight = jnp.asarray(sample_weight, loss.dtype)
        loss = loss * weight.reshape(weight.shape + (1,) * (loss.ndim - weight.ndim))
    if global_batch_size is None:
        global_batch_size = _sum_over_replicas(jnp.float32(rows))
    # Losses per pixel or per token count as their mean.
    per_example = loss.reshape(rows, -1).mean(axis=1) if loss.size else loss
    return jnp.sum(per_example) / jnp.maximum(global_batch_size, 1)


def scale_regularization_loss(regularization_loss: Any) -> jax.Array:
    """Returns the sum of regularization losses, divided by the number of replicas.

    Every replica returns the same share, and the shares add up to the sum.

    >>> float(scale_regularization_loss([1.0, 2.0]))
    3.0
    """
    frame = stack.frame()
    is_replica = isinstance(frame, stack.Replica)
    count = frame.strategy.num_replicas_in_sync if is_replica else 1  # type: ignore[union-attr]
    total = sum(
        jnp.sum(_as_float(leaf)) for leaf in jax.tree.leaves(regularization_loss)
    )
    return jnp.asarray(total) / count


def moments(x: jax.Array, axes: int | Sequence[int] = 0) -> tuple[jax.Array, jax.Array]:
    """Returns mean and variance of `x` over the batches of all replicas.

    For custom normalization layers over the global batch. Differentiable, and exact
    also if replicas have different numbers of rows.

    Args:
        x: An array; inside `run`, this replica's part.
        axes: The axes to reduce, including the batch.

    >>> mean, variance = moments(jnp.array([[1.0], [3.0]]))
    >>> float(mean[0]), float(variance[0])
    (2.0, 1.0)
    """
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    total, num_values = _sum_over_replicas((wide.sum(axes), jnp.float32(count)))
    mean = total / num_values
    centred = wide - jnp.expand_dims(mean, tuple(axis % x.ndim for axis in axes))
    # In two passes, because the mean of squares loses precision if the mean is large.
    variance = _sum_over_replicas((centred**2).sum(axes)) / num_values
    return mean.astype(x.dtype), variance.astype(x.dtype)


def _sum_over_replicas(value: Any) -> Any:
    frame = stack.frame()
    if not isinstance(frame, stack.Replica):
        return value
    return frame.context.all_reduce(ReduceOp.SUM, value)


def _as_float(value: Any) -> jax.Array:
    array = jnp.asarray(value)
    is_float = jnp.issubdtype(array.dtype, jnp.inexact)
    return array if is_float else array.astype(jnp.float32)
