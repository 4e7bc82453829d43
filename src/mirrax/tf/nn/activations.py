"""Activation functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.tensors import tensor

__all__ = [
    "crelu",
    "elu",
    "gelu",
    "leaky_relu",
    "log_softmax",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "swish",
]


def relu(features: Any, name: Any = None) -> Any:
    return jax.nn.relu(tensor(features))


def relu6(features: Any, name: Any = None) -> Any:
    return jax.nn.relu6(tensor(features))


def crelu(features: Any, axis: int = -1, name: Any = None) -> Any:
    array = tensor(features)
    return jax.nn.relu(jnp.concatenate([array, -array], axis))


def elu(features: Any, name: Any = None) -> Any:
    return jax.nn.elu(tensor(features))


def selu(features: Any, name: Any = None) -> Any:
    return jax.nn.selu(tensor(features))


def gelu(features: Any, approximate: bool = False, name: Any = None) -> Any:
    return jax.nn.gelu(tensor(features), approximate=approximate)


def leaky_relu(features: Any, alpha: float = 0.2, name: Any = None) -> Any:
    return jax.nn.leaky_relu(tensor(features), alpha)


def silu(features: Any, beta: float = 1.0) -> Any:
    array = tensor(features)
    return array * jax.nn.sigmoid(beta * array)


swish = silu


def softplus(features: Any, name: Any = None) -> Any:
    return jax.nn.softplus(tensor(features))


def softsign(features: Any, name: Any = None) -> Any:
    return jax.nn.soft_sign(tensor(features))


def softmax(logits: Any, axis: int | None = None, name: Any = None) -> Any:
    return jax.nn.softmax(tensor(logits), -1 if axis is None else axis)


def log_softmax(logits: Any, axis: int | None = None, name: Any = None) -> Any:
    return jax.nn.log_softmax(tensor(logits), -1 if axis is None else axis)
