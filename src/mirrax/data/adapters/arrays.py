"""Adapter of NumPy, JAX and PyTorch arrays, and pytrees of them."""

from __future__ import annotations

import sys
from typing import Any

import jax
import numpy as np

from mirrax.data.nodes.sources import slices
from mirrax.data.plan.node import Node


def adapt(value: Any) -> Node | None:
    """Returns the rows of arrays."""
    torch: Any = sys.modules.get("torch")
    tensor = () if torch is None else torch.Tensor
    if not isinstance(value, (np.ndarray, jax.Array, tuple, dict, tensor)):
        return None
    leaves, structure = jax.tree.flatten(value)
    arrays = [
        leaf.detach().cpu().numpy() if isinstance(leaf, tensor) else leaf
        for leaf in leaves
    ]
    if not arrays or not all(isinstance(x, np.ndarray | jax.Array) for x in arrays):
        return None
    return slices(jax.tree.unflatten(structure, arrays))
