"""Adapter of NumPy and JAX arrays, and pytrees of them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from mirrax.data.node import Node
from mirrax.data.nodes.indexed import slices


def adapt(value: Any) -> Node | None:
    """Returns the rows of arrays."""
    if not isinstance(value, np.ndarray | jax.Array | tuple | dict):
        return None
    leaves = jax.tree.leaves(value)
    if not leaves or not all(isinstance(x, np.ndarray | jax.Array) for x in leaves):
        return None
    return slices(value)
