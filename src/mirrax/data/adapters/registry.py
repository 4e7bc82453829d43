"""`as_dataset`: finds the adapter for an object."""

from __future__ import annotations

import sys
from typing import Any

import jax
import numpy as np

from mirrax.data.adapters import libraries
from mirrax.data.adapters.iterables import adapt_iterable
from mirrax.data.dataset import Dataset
from mirrax.data.nodes.sources import slices
from mirrax.data.plan.node import Node


def _adapt_arrays(value: Any) -> Node | None:
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


# `adapt_iterable` last: objects of the libraries are iterables, too.
_ADAPTERS = (
    _adapt_arrays,
    libraries.adapt_hugging_face,
    libraries.adapt_grain,
    libraries.adapt_keras,
    libraries.adapt_tensorflow,
    libraries.adapt_torch,
    adapt_iterable,
)


def as_dataset(value: Any) -> Dataset:
    """Converts other data to a dataset.

    Takes arrays of NumPy, JAX and PyTorch and structures of them (their rows),
    iterables and generators, and the datasets of Grain, PyTorch (`DataLoader`), Hugging
    Face, TensorFlow and Keras (`PyDataset`).

    >>> import numpy as np
    >>> dataset = as_dataset({"x": np.arange(6), "y": np.ones(6)}).batch(4)
    >>> [element["x"].tolist() for element in dataset]
    [[0, 1, 2, 3], [4, 5]]
    """
    if isinstance(value, Dataset):
        return value
    for adapt in _ADAPTERS:
        node = adapt(value)
        if node is not None:
            return Dataset(node)
    raise TypeError(
        "A dataset must be a `mirrax.data.Dataset`, arrays, an iterable, or a dataset "
        f"of Grain, PyTorch, Hugging Face, TensorFlow or Keras. Received: {value!r} of "
        f"type {type(value).__name__}. Use `Dataset.from_tensor_slices` for arrays, "
        "and a list or a generator for single elements."
    )
