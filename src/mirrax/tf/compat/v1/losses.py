"""`tf.compat.v1.losses`: losses with weights, and the reductions of version 1."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.math.elementwise import abs, minimum
from mirrax.tf.nn.losses import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from mirrax.tf.tensors.tensor import tensor


class Reduction:
    """How the losses of elements are reduced to one."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_OVER_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_BY_NONZERO_WEIGHTS = SUM_OVER_NONZERO_WEIGHTS
    MEAN = "weighted_mean"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        return (
            *(cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE),
            *(cls.SUM_OVER_NONZERO_WEIGHTS, cls.SUM_BY_NONZERO_WEIGHTS),
        )

    @classmethod
    def validate(cls, key: str) -> None:
        if key not in cls.all():
            raise ValueError(
                f"`reduction` must be one of {cls.all()}. Received: {key!r}. Use "
                "`tf.compat.v1.losses.Reduction`."
            )


_DEFAULT = Reduction.SUM_BY_NONZERO_WEIGHTS


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = None,
    reduction: str = _DEFAULT,
) -> Any:
    """Returns the reduced, weighted losses; `loss_collection` is ignored."""
    Reduction.validate(reduction)
    losses = tensor(losses)
    weights = _fitting(tensor(weights).astype(losses.dtype), losses)
    weighted = losses * weights
    if reduction == Reduction.NONE:
        return weighted
    total = jnp.sum(weighted)
    if reduction == Reduction.SUM:
        return total
    everywhere = jnp.broadcast_to(weights, losses.shape)
    if reduction == Reduction.MEAN:
        return _divided(total, jnp.sum(everywhere))
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        return _divided(total, jnp.asarray(losses.size, losses.dtype))
    return _divided(total, jnp.sum(everywhere != 0).astype(losses.dtype))


def _fitting(weights: Any, losses: Any) -> Any:
    """Returns the weights if they are a scalar or have the rank of the losses."""
    is_fitting = weights.ndim in (0, losses.ndim) and all(
        size in (1, wanted)
        for size, wanted in zip(weights.shape, losses.shape, strict=bool(weights.ndim))
    )
    if not is_fitting:
        raise ValueError(
            "weights can not be broadcast to values: they must be a scalar, or have "
            "the size of the losses or 1 along each axis. Received: weights of shape "
            f"{weights.shape} for losses of shape {losses.shape}."
        )
    return weights


def _divided(total: Any, count: Any) -> Any:
    """Returns a quotient; its value and gradient are zero where the count is zero."""
    return jnp.where(count == 0, 0, total / jnp.where(count == 0, 1, count))


def _weighted(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a loss with the parameters of version 1.

    Args:
        loss: Takes labels, predictions and options; returns the losses of elements.
    """
    first, second, *options = inspect.signature(loss).parameters.values()
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    defaults = {"scope": None, "loss_collection": None, "reduction": _DEFAULT}
    signature = inspect.Signature(
        [
            *(first, second, inspect.Parameter("weights", kind, default=1.0), *options),
            *(inspect.Parameter(n, kind, default=x) for n, x in defaults.items()),
        ]
    )

    @functools.wraps(loss)
    def weighted(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        labels, predictions, weights, *rest = bound.args
        pair = _pair(labels, predictions)
        losses = loss(*pair, *rest[: len(options)])
        return compute_weighted_loss(losses, weights, reduction=rest[-1])

    weighted.__signature__ = signature  # type: ignore[attr-defined]
    return weighted


@_weighted
def absolute_difference(labels: Any, predictions: Any) -> Any:
    return abs(predictions - labels)


@_weighted
def mean_squared_error(labels: Any, predictions: Any) -> Any:
    return jnp.square(predictions - labels)


@_weighted
def huber_loss(labels: Any, predictions: Any, delta: float = 1.0) -> Any:
    error = abs(predictions - labels)
    near = minimum(error, delta)
    return 0.5 * near * near + delta * (error - near)


@_weighted
def log_loss(labels: Any, predictions: Any, epsilon: float = 1e-7) -> Any:
    positive = labels * jnp.log(predictions + epsilon)
    return -positive - (1 - labels) * jnp.log(1 - predictions + epsilon)


@_weighted
def hinge_loss(labels: Any, logits: Any) -> Any:
    return jax.nn.relu(1 - (2 * labels - 1) * logits)


@_weighted
def sigmoid_cross_entropy(
    multi_class_labels: Any, logits: Any, label_smoothing: float = 0
) -> Any:
    labels = multi_class_labels * (1 - label_smoothing) + 0.5 * label_smoothing
    return sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


@_weighted
def softmax_cross_entropy(
    onehot_labels: Any, logits: Any, label_smoothing: float = 0
) -> Any:
    labels = onehot_labels * (1 - label_smoothing)
    labels += label_smoothing / labels.shape[1]
    return softmax_cross_entropy_with_logits(labels, logits)


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = None,
    reduction: str = _DEFAULT,
    dim: int | None = None,
) -> Any:
    labels, predictions = _pair(labels, predictions)
    along = dim if axis is None else axis
    if along is None:
        raise ValueError("`cosine_distance` needs `axis`. Received: axis=None.")
    losses = 1 - jnp.sum(predictions * labels, along, keepdims=True)
    return compute_weighted_loss(losses, weights, reduction=reduction)


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = None,
    reduction: str = _DEFAULT,
) -> Any:
    labels, logits = tensor(labels), tensor(logits)
    if labels.ndim == logits.ndim:
        labels = labels[..., 0]
    losses = sparse_softmax_cross_entropy_with_logits(labels, logits)
    weights = tensor(weights)
    if weights.ndim == labels.ndim + 1 and weights.shape[-1] == 1:
        weights = weights[..., 0]
    return compute_weighted_loss(losses, weights, reduction=reduction)


def _pair(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Returns both as tensors with the dtype of the predictions; checks the shapes."""
    predictions = tensor(predictions)
    if not jnp.issubdtype(predictions.dtype, jnp.floating):
        predictions = predictions.astype(jnp.float32)
    labels = tensor(labels).astype(predictions.dtype)
    if labels.shape != predictions.shape:
        raise ValueError(
            f"Shapes {labels.shape} and {predictions.shape} are incompatible: labels "
            "and predictions must have the same shape. Reshape one of them."
        )
    return labels, predictions
