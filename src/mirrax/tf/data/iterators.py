"""Going through a dataset of `tf.data`."""

from __future__ import annotations

from typing import Any

import jax

import mirrax
from mirrax.tf.host_tensors import host


class DatasetIterator(mirrax.data.DatasetIterator):
    """The elements of a dataset, as tensors."""

    def __next__(self) -> Any:
        return jax.tree.map(host, super().__next__())
