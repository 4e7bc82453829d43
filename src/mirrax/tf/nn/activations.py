"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.namespaces.operations import Array, Values, operations

_PRIVATE = frozenset(globals())


_SELU_SCALE = 1.0507009873554805


def _activation(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def activate(features: Values) -> Any:
        return function(features)

    return activate


elu = _activation(jax.nn.elu)
relu = _activation(jax.nn.relu)
relu6 = _activation(jax.nn.relu6)
softplus = _activation(jax.nn.softplus)
softsign = _activation(jax.nn.soft_sign)


def crelu(features: Array, axis: int = -1) -> Any:
    return jax.nn.relu(jnp.concatenate([features, -features], axis))


def gelu(features: Array, approximate: bool = False) -> Any:
    return jax.nn.gelu(features, approximate=approximate)


def leaky_relu(features: Array, alpha: float = 0.2) -> Any:
    # At 0 the gradient is `alpha`, as in TensorFlow.
    return jnp.where(features > 0, features, alpha * features)


def selu(features: Array) -> Any:
    # At 0 the gradient is that of the linear part, as in TensorFlow.
    return jnp.where(features >= 0, _SELU_SCALE * features, jax.nn.selu(features))


def silu(features: Array, beta: float = 1.0) -> Any:
    return features * jax.nn.sigmoid(beta * features)


swish = silu


def softmax(logits: Array, axis: int | None = None) -> Any:
    return jax.nn.softmax(logits, -1 if axis is None else axis)


def log_softmax(logits: Array, axis: int | None = None) -> Any:
    return jax.nn.log_softmax(logits, -1 if axis is None else axis)


operations(globals(), _PRIVATE)
