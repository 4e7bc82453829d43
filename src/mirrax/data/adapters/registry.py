"""`as_dataset`: finds the adapter for an object."""

from __future__ import annotations

from typing import Any

from mirrax.data.adapters import arrays, hugging_face, iterables, libraries
from mirrax.data.dataset import Dataset

# `iterables` last: objects of the libraries are iterables, too.
_ADAPTERS = (
    arrays.adapt,
    hugging_face.adapt,
    libraries.adapt_grain,
    libraries.adapt_keras,
    libraries.adapt_tensorflow,
    libraries.adapt_torch,
    iterables.adapt,
)


def gives_rows(value: Any) -> bool:
    """Returns whether the elements of other data are rows, not batches.

    So are those of arrays and Hugging Face's tables, and Grain's without its `batch`.
    """
    if arrays.adapt(value) is not None or hugging_face.adapt(value) is not None:
        return True
    is_grain = libraries.adapt_grain(value) is not None
    return is_grain and not libraries.is_batched(value)


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
