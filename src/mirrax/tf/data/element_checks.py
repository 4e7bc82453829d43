"""Errors about elements that TensorFlow raises when a dataset is made.

Where the elements cannot be described yet, the error comes when they are read.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import jax
import numpy as np

import mirrax
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.sparse_tensors import SparseTensor


def require_same_types(*datasets: mirrax.data.Dataset) -> None:
    """Raises unless the elements of all have the same structure and kinds of dtypes.

    Integers of 32 and of 64 bits are one kind, and so are floats: `jax.numpy` gives 32
    bits where TensorFlow gives 64.
    """
    specs = [spec for spec in map(_spec_of, datasets) if spec is not None]
    for first, other in itertools.pairwise(specs):
        if jax.tree.map(_type, first, is_leaf=_is_composite) != jax.tree.map(
            _type, other, is_leaf=_is_composite
        ):
            raise TypeError(
                "Elements of datasets that are combined have different types. "
                f"Received: {first} and {other}. Use `map` and `tf.cast` to make them "
                "equal."
            )


def require_rows(dataset: mirrax.data.Dataset) -> None:
    """Raises if elements cannot be taken apart into rows."""
    shapes = [leaf.shape for leaf in jax.tree.leaves(_spec_of(dataset))]
    sizes = {shape[0] for shape in shapes if shape} - {None}
    if () in shapes or len(sizes) > 1:
        raise ValueError(
            "`unbatch` needs elements whose arrays all have a first dimension of the "
            f"same size. Received: {dataset.element_spec}. Call `batch` first."
        )


def require_padding(
    dataset: mirrax.data.Dataset, padded_shapes: Any, padding_values: Any
) -> None:
    """Raises if `padded_batch` cannot pad the elements in this way."""
    spec = _spec_of(dataset)
    if spec is None:
        return
    if any(map(_is_composite, jax.tree.leaves(spec, is_leaf=_is_composite))):
        raise TypeError(
            "`padded_batch` needs elements of dense tensors. Received: "
            f"{spec}. Use `batch` for ragged and sparse tensors."
        )
    leaves, structure = jax.tree.flatten(spec)
    if padded_shapes is not None:
        shapes = _per_leaf("padded_shapes", structure, padded_shapes)
        for leaf, shape in zip(leaves, shapes, strict=True):
            _require_fitting_shape(leaf, shape)
    if padding_values is not None:
        values = [padding_values] * len(leaves)
        if not jax.tree_util.all_leaves([padding_values]):
            values = _per_leaf("padding_values", structure, padding_values)
        for leaf, value in zip(leaves, values, strict=True):
            _require_fitting_value(leaf, value)


def _spec_of(dataset: mirrax.data.Dataset) -> Any:
    try:
        return dataset.element_spec
    except Exception:
        # For example a file that is missing: raised again when elements are read.
        return None


def _is_composite(value: Any) -> bool:
    return isinstance(value, RaggedTensor | SparseTensor)


def _type(spec: Any) -> tuple[type, Any]:
    is_text = spec.dtype == object
    return type(spec), spec.dtype if is_text else jax.dtypes.canonicalize_dtype(
        spec.dtype
    )


def _per_leaf(name: str, structure: Any, given: Any) -> list[Any]:
    try:
        found: list[Any] = structure.flatten_up_to(given)
    except (TypeError, ValueError) as error:
        raise mirrax.errors.WrongType(
            f"`{name}` must have the structure of the elements. Received: {given!r}."
        ) from error
    return found


def _require_fitting_shape(spec: mirrax.TensorSpec, shape: Any) -> None:
    if np.ndim(shape) > 1:
        raise ValueError(
            f"Padded shape {shape} must be a list of sizes, but its shape was "
            f"{np.shape(shape)}."
        )
    try:
        sizes = [-1 if size is None else operator.index(size) for size in shape]
    except TypeError as error:
        raise TypeError(
            f"Padded shape {shape} must be a list of integers, or None for the longest "
            "of a batch."
        ) from error
    known = spec.shape
    if min(sizes, default=0) < -1 or (
        known is not None
        and (len(known) != len(sizes) or any(map(_is_too_small, sizes, known)))
    ):
        text = tuple(None if size == -1 else size for size in sizes)
        raise ValueError(
            f"The padded shape {text} is not compatible with the shape {known} of the "
            "corresponding input component."
        )


def _is_too_small(size: int, known: int | None) -> bool:
    return size != -1 and known is not None and size < known


def _require_fitting_value(spec: mirrax.TensorSpec, value: Any) -> None:
    if value is None:
        return
    if np.ndim(value):
        raise ValueError(
            "`padding_values` should be scalars. Received: a value of shape "
            f"{np.shape(value)}."
        )
    is_text = isinstance(value, str | bytes) or np.asarray(value).dtype == object
    fits = is_text == (spec.dtype == object)
    if not is_text and fits:
        fits = np.can_cast(np.asarray(value).dtype, spec.dtype, "same_kind")
    if not fits:
        raise TypeError(
            f"`padding_values` must have the dtypes of the elements. Received: "
            f"{value!r}, for {spec}."
        )
