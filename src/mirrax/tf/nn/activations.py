"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.exports import defined_after
from mirrax.tf.tensors.ragged_tensors import on_values
from mirrax.tf.tensors.tensor import tensor

_PRIVATE = frozenset(globals())


_SELU_SCALE = 1.0507009873554805


def _activation(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def activate(features: Any, name: Any = None) -> Any:
        return function(tensor(features))

    return on_values(activate)


elu = _activation(jax.nn.elu)
relu = _activation(jax.nn.relu)
relu6 = _activation(jax.nn.relu6)
softplus = _activation(jax.nn.softplus)
softsign = _activation(jax.nn.soft_sign)


def crelu(features: Any, axis: int = -1, name: Any = None) -> Any:
    array = tensor(features)
    return jax.nn.relu(jnp.concatenate([array, -array], axis))


def gelu(features: Any, approximate: bool = False, name: Any = None) -> Any:
    return jax.nn.gelu(tensor(features), approximate=approximate)


def leaky_relu(features: Any, alpha: float = 0.2, name: Any = None) -> Any:
    array = tensor(features)
    # At 0 the gradient is `alpha`, as in TensorFlow.
    return jnp.where(array > 0, array, alpha * array)


def selu(features: Any, name: Any = None) -> Any:
    array = tensor(features)
    # At 0 the gradient is that of the linear part, as in TensorFlow.
    return jnp.where(array >= 0, _SELU_SCALE * array, jax.nn.selu(array))


def silu(features: Any, beta: float = 1.0) -> Any:
    array = tensor(features)
    return array * jax.nn.sigmoid(beta * array)


swish = silu


def softmax(logits: Any, axis: int | None = None, name: Any = None) -> Any:
    return jax.nn.softmax(tensor(logits), -1 if axis is None else axis)


def log_softmax(logits: Any, axis: int | None = None, name: Any = None) -> Any:
    return jax.nn.log_softmax(tensor(logits), -1 if axis is None else axis)


__all__ = list(defined_after(_PRIVATE, globals()))
