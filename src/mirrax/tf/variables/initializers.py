"""Initializers of variables: functions of a shape and a dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from mirrax.tf.dtypes import canonical, float32
from mirrax.tf.exports import defined_after
from mirrax.tf.random import stateful
from mirrax.tf.tensors.tensor import sizes

Initializer = Callable[..., Any]

_PRIVATE = frozenset(globals())


def constant_initializer(value: Any = 0) -> Initializer:
    def make(shape: Any, dtype: Any = float32, **_: Any) -> Any:
        given = jnp.asarray(value, canonical(dtype))
        size = sizes(shape)
        return given.reshape(size) if given.ndim else jnp.full(size, given)

    return make


def zeros_initializer() -> Initializer:
    return constant_initializer(0)


def ones_initializer() -> Initializer:
    return constant_initializer(1)


def random_uniform_initializer(
    minval: float = -0.05, maxval: float = 0.05, seed: Any = None
) -> Initializer:
    return lambda shape, dtype=float32, **_: stateful.uniform(
        shape, minval, maxval, dtype, seed
    )


def random_normal_initializer(
    mean: float = 0.0, stddev: float = 0.05, seed: Any = None
) -> Initializer:
    return lambda shape, dtype=float32, **_: stateful.normal(
        shape, mean, stddev, dtype, seed
    )


__all__ = list(defined_after(_PRIVATE, globals()))
