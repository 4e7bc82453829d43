"""`tf.experimental.numpy.random`: random numbers with NumPy's parameters."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from mirrax.tf.random import ambient, stateful


def seed(s: int) -> None:
    ambient.set_seed(s)


def standard_normal(size: Any = ()) -> Any:
    return stateful.normal(_shape(size), dtype=np.float64)


def randn(*args: int) -> Any:
    return standard_normal(args)


def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    least, bound = jnp.asarray(low, float), jnp.asarray(high, float)
    shape = jnp.broadcast_shapes(least.shape, bound.shape) if size is None else size
    return stateful.uniform(shape, dtype=np.float64) * (bound - least) + least


def random(size: Any = ()) -> Any:
    return uniform(size=_shape(size))


def rand(*size: int) -> Any:
    return random(size)


def randint(low: int, high: Any = None, size: Any = (), dtype: Any = np.int64) -> Any:
    least, bound = (0, low) if high is None else (low, high)
    return stateful.uniform(_shape(size), int(least), int(bound), dtype)


def poisson(lam: Any = 1.0, size: Any = ()) -> Any:
    return stateful.poisson(_shape(size), lam, np.int64)


def _shape(size: Any) -> Any:
    return () if size is None else size
