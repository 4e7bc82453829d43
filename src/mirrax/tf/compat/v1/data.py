"""`tf.compat.v1.data`: iterators of datasets."""

from __future__ import annotations

from typing import Any

from mirrax.tf import data
from mirrax.tf.data import *  # noqa: F403
from mirrax.tf.data.input_iterator import InputIterator

__getattr__ = data.__getattr__


def make_one_shot_iterator(dataset: data.Dataset) -> Any:
    """Returns an iterator of a dataset."""
    return iter(dataset)


def make_initializable_iterator(
    dataset: data.Dataset, shared_name: Any = None
) -> InputIterator:
    """Returns an iterator of a dataset that `initialize` restarts."""
    return InputIterator(dataset)
