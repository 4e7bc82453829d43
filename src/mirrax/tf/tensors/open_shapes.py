"""Shapes of tensors in functions that are exported, with sizes that are left open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def joined_shape(parts: Sequence[Any]) -> Any:
    """Returns the sizes of several shapes."""
    return shape_tensor([size for part in parts for size in np.asarray(part).tolist()])
