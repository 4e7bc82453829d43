"""Shapes, and functions that reshape, join, split and slice tensors."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.export import is_symbolic_dim

from mirrax.errors import InvalidArgumentError
from mirrax.tf.dtypes import canonical, int32
from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.open_shapes import OpenShape, joined_sizes, shape_tensor
from mirrax.tf.tensors.ragged_tensors import RaggedTensor, join_rows
from mirrax.tf.tensors.tensor import (
    axes,
    is_row_stand_in,
    is_traced,
    library_of,
    sizes,
    tensor,
)
from mirrax.tf.tensors.tensor import tensor as to_tensor
from mirrax.tf.tensors.tensor_shape import TensorShape

_PRIVATE = frozenset(globals())

newaxis = None


def shape(input: Any, out_type: Any = int32) -> Any:
    """Returns the shape as a host tensor, also while a function is traced."""
    return shape_tensor(_known_shape(input), canonical(out_type))


def shape_n(input: Any, out_type: Any = int32) -> list[Any]:
    return [shape(value, out_type) for value in input]


def rank(input: Any) -> Any:
    return host(np.int32(len(_known_shape(input))))


def size(input: Any, out_type: Any = int32) -> Any:
    if isinstance(input, RaggedTensor):
        return jnp.sum(tensor(input.lengths)).astype(canonical(out_type))
    count = math.prod(_known_shape(input))
    return count if is_symbolic_dim(count) else host(canonical(out_type).type(count))


def reshape(tensor: Any, shape: Any) -> Any:
    if is_row_stand_in(tensor):
        return tensor.reshape(sizes(shape))
    array = to_tensor(tensor)
    return library_of(array).reshape(array, sizes(shape))


def expand_dims(input: Any, axis: Any) -> Any:
    if isinstance(input, RaggedTensor) and axis not in (0, 1):
        return input.map(lambda x: expand_dims(x, axis))
    array = tensor(input)
    return library_of(array).expand_dims(array, axes(axis))


def squeeze(input: Array, axis: Any = None) -> Any:
    return library_of(input).squeeze(input, axes(axis))


def transpose(a: Array, perm: Any = None, conjugate: bool = False) -> Any:
    a = library_of(a).transpose(a, axes(perm))
    return jnp.conj(a) if conjugate else a


def broadcast_to(input: Array, shape: Any) -> Any:
    return library_of(input).broadcast_to(input, sizes(shape))


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    return TensorShape(np.broadcast_shapes(sizes(shape_x), sizes(shape_y)))


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Any:
    return host(np.array(broadcast_static_shape(shape_x, shape_y), np.int32))


def ensure_shape(x: Array, shape: Any) -> Any:
    wanted = TensorShape(shape)
    if not wanted.is_compatible_with(x.shape):
        raise ValueError(
            f"Shape of tensor {x.shape} is not compatible with expected shape "
            f"{tuple(wanted)}."
        )
    return x


def concat(values: Any, axis: Any) -> Any:
    if any(isinstance(value, RaggedTensor) for value in values):
        return join_rows(values, int(axis))
    shape = joined_sizes(values, ndim=1)
    if shape is not None:
        return shape
    arrays = [tensor(value) for value in values]
    return host(library_of(*arrays).concatenate(arrays, int(axis)))


def stack(values: Any, axis: int = 0) -> Any:
    shape = joined_sizes(values, ndim=0)
    if shape is not None:
        return shape
    arrays = [tensor(value) for value in values]
    return host(library_of(*arrays).stack(arrays, axis))


def parallel_stack(values: Any) -> Any:
    return stack(values)


def unstack(value: Any, num: int | None = None, axis: int = 0) -> list[Any]:
    if isinstance(value, OpenShape):
        return list(value)
    array = tensor(value)
    return [host(row) for row in library_of(array).moveaxis(array, axis, 0)]


def split(
    value: Array, num_or_size_splits: Any, axis: int = 0, num: int | None = None
) -> list[Any]:
    cut = library_of(value).split
    if isinstance(num_or_size_splits, int):
        return list(cut(value, num_or_size_splits, axis))
    parts = list(sizes(num_or_size_splits))
    if -1 in parts:
        known = sum(part for part in parts if part >= 0)
        parts[parts.index(-1)] = value.shape[axis] - known
    return list(cut(value, np.cumsum(parts)[:-1].tolist(), axis))


def tile(input: Array, multiples: Any) -> Any:
    return host(library_of(input).tile(input, sizes(multiples)))


def repeat(input: Array, repeats: Any, axis: int | None = None) -> Any:
    counts = repeats if is_symbolic_dim(repeats) else np.asarray(repeats)
    return host(library_of(input).repeat(input, counts, axis))


def pad(
    tensor: Array, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0
) -> Any:
    widths = np.asarray(paddings).tolist()
    if mode.upper() == "CONSTANT":
        return jnp.pad(tensor, widths, constant_values=constant_values)
    return jnp.pad(tensor, widths, mode=mode.lower())


def reverse(tensor: Array, axis: Any) -> Any:
    return library_of(tensor).flip(tensor, axes(axis))


def roll(input: Array, shift: Any, axis: Any) -> Any:
    return library_of(input).roll(input, axes(shift), axes(axis))


def slice(input_: Array, begin: Any, size: Any) -> Any:
    starts = begin if is_traced(begin) else np.asarray(begin).tolist()
    wanted = [
        input_.shape[i] - int(starts[i]) if s == -1 else s
        for i, s in enumerate(sizes(size))
    ]
    if is_traced(begin):
        return jax.lax.dynamic_slice(input_, starts, wanted)
    stops = [start + count for start, count in zip(starts, wanted, strict=True)]
    bounds = zip(starts, wanted, stops, input_.shape, strict=True)
    if any(min(start, count) < 0 or stop > end for start, count, stop, end in bounds):
        raise InvalidArgumentError(
            "A slice must be within the tensor. Received: "
            f"begin={starts}, size={wanted} for the shape {tuple(input_.shape)}."
        )
    return input_[tuple(map(builtins.slice, starts, stops))]


def strided_slice(
    input_: Array,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
) -> Any:
    steps: Sequence[int] = [1] * len(begin) if strides is None else strides
    keys: list[Any] = []
    for index, (first, last, step) in enumerate(zip(begin, end, steps, strict=True)):
        bit = 1 << index
        if ellipsis_mask & bit:
            keys.append(...)
        elif new_axis_mask & bit:
            keys.append(None)
        elif shrink_axis_mask & bit:
            keys.append(int(first))
        else:
            start = None if begin_mask & bit else int(first)
            stop = None if end_mask & bit else int(last)
            keys.append(builtins.slice(start, stop, int(step)))
    return input_[tuple(keys)]


def _known_shape(value: Any) -> tuple[int, ...]:
    """Returns the shape of a value; converts it to a tensor only if needed."""
    is_ragged = isinstance(value, RaggedTensor)
    found = None if is_ragged else getattr(value, "shape", None)
    return tuple(tensor(value).shape if found is None else found)


operations(globals(), _PRIVATE)
