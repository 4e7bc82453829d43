"""Losses, and how they are averaged over replicas."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mirrax
from mirrax.tf.math.elementwise import divide_no_nan
from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.tensors.tensor import operands, tensor

_PRIVATE = frozenset(globals())


def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None) -> Any:
    labels, logits = operands(labels, logits)
    return jax.nn.relu(logits) - logits * labels + _log_of_sum(logits)


def _log_of_sum(logits: Any) -> Any:
    """Returns log(1 + exp(-|x|)); its gradient at 0 is that of x < 0, as for `relu`."""
    return jnp.log1p(jnp.exp(jnp.where(logits > 0, -logits, logits)))


def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Array = None
) -> Any:
    labels, logits = operands(labels, logits)
    weight = 1 + (pos_weight - 1) * labels
    rest = _log_of_sum(logits) + jax.nn.relu(-logits)
    return (1 - labels) * logits + weight * rest


def softmax_cross_entropy_with_logits(
    labels: Array, logits: Array, axis: int = -1
) -> Any:
    labels = labels.astype(logits.dtype)
    return -jnp.sum(labels * jax.nn.log_softmax(logits, axis), axis)


def sparse_softmax_cross_entropy_with_logits(labels: Array, logits: Array) -> Any:
    chances = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(chances, labels[..., None], axis=-1)
    return -chosen[..., 0]


def l2_loss(t: Array) -> Any:
    return jnp.sum(jnp.square(t)) / 2


def log_poisson_loss(
    targets: Any, log_input: Any, compute_full_loss: bool = False
) -> Any:
    targets, log_input = operands(targets, log_input)
    loss = jnp.exp(log_input) - log_input * targets
    if not compute_full_loss:
        return loss
    safe = jnp.where(targets == 0, 1, targets)
    stirling = safe * jnp.log(safe) - safe + 0.5 * jnp.log(2 * jnp.pi * safe)
    is_small = (targets >= 0) & (targets <= 1)
    return loss + jnp.where(is_small, 0, stirling)


def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None
) -> Any:
    """Returns this replica's contribution to the mean over the global batch."""
    _require_replica("compute_average_loss")
    losses = tensor(per_example_loss)
    if losses.ndim == 0:
        raise ValueError(
            "`per_example_loss` must have one loss for each example. Received: a "
            f"scalar, {per_example_loss!r}. Use a loss without reduction."
        )
    if sample_weight is not None:
        weights = tensor(sample_weight).astype(losses.dtype)
        losses = losses * weights.reshape(
            *weights.shape, *[1] * (losses.ndim - weights.ndim)
        )
    if global_batch_size is None:
        global_batch_size = losses.shape[0] * _num_replicas()
    elif np.ndim(global_batch_size) != 0:
        raise ValueError(
            "`global_batch_size` must be a scalar. Received: "
            f"global_batch_size={global_batch_size!r}."
        )
    return divide_no_nan(jnp.sum(losses), global_batch_size)


def scale_regularization_loss(regularization_loss: Any) -> Any:
    """Returns a shared loss divided by the number of replicas."""
    _require_replica("scale_regularization_loss")
    return jnp.sum(tensor(regularization_loss)) / _num_replicas()


def _num_replicas() -> int:
    return mirrax.get_strategy().num_replicas_in_sync


def _require_replica(name: str) -> None:
    if mirrax.in_cross_replica_context():
        raise RuntimeError(
            f"`tf.nn.{name}` must be called inside `strategy.run`, where each replica "
            "has its own losses. Received: a call in cross-replica context."
        )


operations(globals(), _PRIVATE)
