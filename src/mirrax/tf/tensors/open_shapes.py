"""Shapes that are known while a function is traced, up to sizes that are left open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.export import is_symbolic_dim

from mirrax.tf.tensors.host_tensors import HostTensor, host


class OpenShape(HostTensor):
    """A shape of which some sizes are symbols of JAX, which act like integers."""

    def __getitem__(self, key: Any) -> Any:
        found = np.asarray(self)[key]
        return shape_tensor(found) if isinstance(found, np.ndarray) else host(found)

    def traced(self, dtype: Any) -> jax.Array:
        """Returns the sizes as values of the program."""
        return jnp.stack([jnp.asarray(size, dtype) for size in self])


def shape_tensor(sizes: Iterable[Any], dtype: Any = np.int32) -> Any:
    """Returns sizes as a tensor; as an `OpenShape` if some are left open."""
    known = list(sizes)
    if any(map(is_symbolic_dim, known)):
        return np.array(known, object).view(OpenShape)
    return host(np.array(known, dtype))


def joined_sizes(parts: Any, ndim: int) -> Any:
    """Returns whole numbers in host memory as a shape, also while a function is traced.

    Args:
        parts: Numbers, or vectors of them.
        ndim: Which of the two: 0 or 1.

    Returns:
        The shape; None if they are something else.
    """
    if not any(isinstance(part, HostTensor) or is_symbolic_dim(part) for part in parts):
        return None
    if any(isinstance(part, jax.Array) for part in parts):
        return None
    arrays = [np.asarray(part, object) for part in parts]
    found = [size for array in arrays for size in array.reshape(-1).tolist()]
    are_whole = all(type(size) is int or is_symbolic_dim(size) for size in found)
    if not are_whole or any(array.ndim != ndim for array in arrays):
        return None
    dtypes = [part.dtype for part in parts if isinstance(part, HostTensor)]
    known = [dtype for dtype in dtypes if dtype.kind == "i"]
    return shape_tensor(found, [*known, np.int32][0])
