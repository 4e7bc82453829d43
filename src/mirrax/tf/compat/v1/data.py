"""`tf.compat.v1.data`: iterators of datasets, and what their elements are like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from mirrax.tf import data
from mirrax.tf.data import *  # noqa: F403
from mirrax.tf.data.input_iterator import InputIterator
from mirrax.tf.dtypes import as_dtype
from mirrax.tf.namespaces.missing_names import names_of
from mirrax.tf.tensors.tensor_shape import TensorShape

__getattr__ = names_of("tf.data")


def make_one_shot_iterator(dataset: data.Dataset) -> Any:
    """Returns an iterator of a dataset."""
    return iter(dataset)


def make_initializable_iterator(
    dataset: data.Dataset, shared_name: Any = None
) -> InputIterator:
    """Returns an iterator of a dataset that `initialize` restarts."""
    return InputIterator(dataset)


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """Returns the shapes of the elements, nested as they are."""
    return _of_specs("shape", dataset_or_iterator, TensorShape)


def get_output_types(dataset_or_iterator: Any) -> Any:
    """Returns the dtypes of the elements, nested as they are."""
    return _of_specs("dtype", dataset_or_iterator, as_dtype)


def _of_specs(name: str, described: Any, convert: Callable[[Any], Any]) -> Any:
    return jax.tree.map(
        lambda spec: convert(getattr(spec, name)),
        described.element_spec,
        is_leaf=lambda part: hasattr(part, name),
    )
