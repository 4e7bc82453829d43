"""Reductions of groups of rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.dtypes import limits
from mirrax.tf.tensors import tensor

__all__ = [
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "unsorted_segment_max",
    "unsorted_segment_mean",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sqrt_n",
    "unsorted_segment_sum",
]


def unsorted_segment_sum(
    data: Any, segment_ids: Any, num_segments: int, name: Any = None
) -> Any:
    data, ids = _grouped(data, segment_ids)
    return jax.ops.segment_sum(data, ids, int(num_segments))


def unsorted_segment_prod(
    data: Any, segment_ids: Any, num_segments: int, name: Any = None
) -> Any:
    data, ids = _grouped(data, segment_ids)
    return jax.ops.segment_prod(data, ids, int(num_segments))


def unsorted_segment_max(
    data: Any, segment_ids: Any, num_segments: int, name: Any = None
) -> Any:
    data, ids = _grouped(data, segment_ids)
    found = jax.ops.segment_max(data, ids, int(num_segments))
    return jnp.where(_is_empty(ids, num_segments, found), limits(data.dtype).min, found)


def unsorted_segment_min(
    data: Any, segment_ids: Any, num_segments: int, name: Any = None
) -> Any:
    data, ids = _grouped(data, segment_ids)
    found = jax.ops.segment_min(data, ids, int(num_segments))
    return jnp.where(_is_empty(ids, num_segments, found), limits(data.dtype).max, found)


def unsorted_segment_mean(
    data: Any, segment_ids: Any, num_segments: int, name: Any = None
) -> Any:
    total = unsorted_segment_sum(data, segment_ids, num_segments)
    return total / _counts(total, data, segment_ids, num_segments)


def unsorted_segment_sqrt_n(
    data: Any, segment_ids: Any, num_segments: int, name: Any = None
) -> Any:
    total = unsorted_segment_sum(data, segment_ids, num_segments)
    return total / jnp.sqrt(_counts(total, data, segment_ids, num_segments))


def segment_sum(data: Any, segment_ids: Any, name: Any = None) -> Any:
    return unsorted_segment_sum(data, segment_ids, _size(segment_ids))


def segment_prod(data: Any, segment_ids: Any, name: Any = None) -> Any:
    return unsorted_segment_prod(data, segment_ids, _size(segment_ids))


def segment_mean(data: Any, segment_ids: Any, name: Any = None) -> Any:
    return unsorted_segment_mean(data, segment_ids, _size(segment_ids))


def segment_max(data: Any, segment_ids: Any, name: Any = None) -> Any:
    found = unsorted_segment_max(data, segment_ids, _size(segment_ids))
    return _without_gaps(found, segment_ids)


def segment_min(data: Any, segment_ids: Any, name: Any = None) -> Any:
    found = unsorted_segment_min(data, segment_ids, _size(segment_ids))
    return _without_gaps(found, segment_ids)


def _grouped(data: Any, segment_ids: Any) -> tuple[Any, Any]:
    """Returns the rows and their groups, when groups are given for several axes too."""
    data, ids = tensor(data), tensor(segment_ids)
    return data.reshape(ids.size, *data.shape[ids.ndim :]), ids.reshape(-1)


def _size(segment_ids: Any) -> int:
    return int(tensor(segment_ids)[-1]) + 1


def _is_empty(ids: Any, num_segments: int, like: Any) -> Any:
    counts = jnp.bincount(ids, length=int(num_segments))
    return (counts == 0).reshape(-1, *[1] * (like.ndim - 1))


def _counts(total: Any, data: Any, segment_ids: Any, num_segments: int) -> Any:
    ids = tensor(segment_ids).reshape(-1)
    counts = jnp.maximum(jnp.bincount(ids, length=int(num_segments)), 1)
    return counts.reshape(-1, *[1] * (total.ndim - 1)).astype(total.dtype)


def _without_gaps(found: Any, segment_ids: Any) -> Any:
    ids = tensor(segment_ids)
    return jnp.where(_is_empty(ids, found.shape[0], found), 0, found)
