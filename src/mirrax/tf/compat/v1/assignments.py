"""Functions of version 1 that are methods in version 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from mirrax.tf.dtypes import float32, float64, int32, int64
from mirrax.tf.tensors.creation import cast
from mirrax.tf.tensors.tensor import operands


def div(x: Any, y: Any, name: Any = None) -> Any:
    """Divides as Python 2: integers without a remainder."""
    x, y = operands(x, y)
    is_whole = jnp.issubdtype(jnp.result_type(x, y), jnp.integer)
    return x // y if is_whole else x / y


def _method(name: str) -> Callable[..., Any]:
    return lambda ref, value, *_, **__: getattr(ref, name)(value)


def _to(dtype: Any) -> Callable[..., Any]:
    return lambda x, name=None: cast(x, dtype)


assign, assign_add, assign_sub = map(_method, ("assign", "assign_add", "assign_sub"))
to_float, to_double, to_int32, to_int64 = map(_to, (float32, float64, int32, int64))
