"""Small helpers for losses and normalization over all replicas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.context import stack
from mirrax.options import ReduceOp


def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None
) -> jax.Array:
    """Returns this replica's share of the mean loss over the global batch.

    The shares of all replicas, and their gradients, add up to those of the mean over
    all examples, however many each replica has. A replica without examples adds 0.

    Args:
        per_example_loss: One loss for each example, along the first axis. Losses per
            pixel or per token count as their mean.
        sample_weight: Weights, one for each example, or one for each loss, such as a
            mask of the tokens that count.
        global_batch_size: What to divide by, instead of the number of examples of all
            replicas, or the sum of their weights.

    >>> float(compute_average_loss(jnp.array([1.0, 3.0])))
    2.0
    >>> float(compute_average_loss(jnp.array([1.0, 3.0]), sample_weight=[3, 1]))
    1.5
    >>> float(compute_average_loss(jnp.array([1.0, 3.0]), global_batch_size=8))
    0.5
    """
    frame = stack.frame()
    if isinstance(frame, stack.Replica) and frame.is_in_piece:
        raise ValueError(
            "In `accumulate_gradients` a loss is the plain mean of its piece: pieces "
            "and replicas are weighted by their rows, and added up. Received: "
            "`compute_average_loss`, a replica's share of a sum. Use "
            "`jnp.mean(losses)`; with weights, `jnp.sum(losses * w) / jnp.sum(w)` and "
            "`weight=`. Do not reduce the result."
        )
    loss = _as_float(per_example_loss)
    if loss.ndim == 0:
        raise ValueError(
            "`per_example_loss` must have one loss per example. Received: a scalar. "
            "Compute the loss without a reduction."
        )
    loss = loss.astype(jnp.promote_types(loss.dtype, jnp.float32))
    count: Any = jnp.float32(loss.shape[0])
    if sample_weight is not None:
        weight = _broadcast(jnp.asarray(sample_weight, loss.dtype), loss.shape)
        loss = loss * weight
        count = jnp.sum(weight) / _values_per_example(loss)
    if global_batch_size is None:
        global_batch_size = _sum_over_replicas(count)
    divisor = jnp.where(global_batch_size == 0, 1, global_batch_size)
    return jnp.sum(loss) / _values_per_example(loss) / divisor


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
    count = math.prod(x.shape[axis] for axis in axes)
    total, num_values = _sum_over_replicas((wide.sum(axes), jnp.float32(count)))
    mean = total / num_values
    centred = wide - jnp.expand_dims(mean, tuple(axis % x.ndim for axis in axes))
    # In two passes, because the mean of squares loses precision if the mean is large.
    variance = _sum_over_replicas((centred**2).sum(axes)) / num_values
    return mean.astype(x.dtype), variance.astype(x.dtype)


def _values_per_example(loss: jax.Array) -> int:
    return max(math.prod(loss.shape[1:]), 1)


def _broadcast(weight: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Returns weights for all losses; those of examples come without the last axes."""
    weight = weight.reshape(weight.shape + (1,) * (len(shape) - weight.ndim))
    return jnp.broadcast_to(weight, shape)


def _sum_over_replicas(value: Any) -> Any:
    frame = stack.frame()
    if not isinstance(frame, stack.Replica):
        return value
    return frame.context.all_reduce(ReduceOp.SUM, value)


def _as_float(value: Any) -> jax.Array:
    array = jnp.asarray(value)
    is_float = jnp.issubdtype(array.dtype, jnp.inexact)
    return array if is_float else array.astype(jnp.float32)
