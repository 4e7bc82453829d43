"""Top-k, embedding lookup, and space/depth conversions."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mirrax.tf.dtypes import canonical, int32
from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.tensor import tensor

__all__ = ["depth_to_space", "embedding_lookup", "space_to_depth", "top_k"]


class TopK(NamedTuple):
    """The largest values along the last axis, with their indices."""

    values: Any
    indices: Any


def top_k(
    input: Array, k: int = 1, sorted: bool = True, index_type: Any = int32
) -> TopK:
    values, indices = jax.lax.top_k(input, int(k))
    return TopK(values, indices.astype(canonical(index_type)))


def embedding_lookup(params: Any, ids: Any, max_norm: float | None = None) -> Any:
    if isinstance(ids, RaggedTensor):
        return ids.map(lambda at: embedding_lookup(params, at, max_norm))
    rows = jnp.take(tensor(params), tensor(ids), axis=0)
    if max_norm is None:
        return rows
    axes = tuple(range(tensor(ids).ndim, rows.ndim))
    norm = jnp.sqrt(jnp.sum(jnp.square(rows), axes, keepdims=True))
    return rows * max_norm / jnp.maximum(norm, max_norm)


def depth_to_space(input: Array, block_size: int, data_format: str = "NHWC") -> Any:
    array = _last(input, data_format)
    n, h, w, c = array.shape
    size = int(block_size)
    split = array.reshape(n, h, w, size, size, c // size**2)
    joined = split.transpose(0, 1, 3, 2, 4, 5).reshape(n, h * size, w * size, -1)
    return _first(joined, data_format)


def space_to_depth(input: Array, block_size: int, data_format: str = "NHWC") -> Any:
    array = _last(input, data_format)
    n, h, w, c = array.shape
    size = int(block_size)
    split = array.reshape(n, h // size, size, w // size, size, c)
    joined = split.transpose(0, 1, 3, 2, 4, 5)
    return _first(joined.reshape(n, h // size, w // size, -1), data_format)


def _last(array: Any, data_format: str) -> Any:
    return jnp.moveaxis(array, 1, -1) if data_format == "NCHW" else array


def _first(array: Any, data_format: str) -> Any:
    return jnp.moveaxis(array, -1, 1) if data_format == "NCHW" else array


operations(globals())
