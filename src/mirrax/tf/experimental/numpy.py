"""`tf.experimental.numpy`: the functions of `jax.numpy`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from mirrax.tf.experimental import numpy_random as random

__all__ = ["experimental_enable_numpy_behavior", "random"]


def experimental_enable_numpy_behavior(
    prefer_float32: bool = False, dtype_conversion_mode: str = "legacy"
) -> None:
    """Does nothing: JAX arrays behave like NumPy's."""


def __getattr__(name: str) -> Any:
    return getattr(jnp, name)
