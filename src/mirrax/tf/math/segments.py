"""Reductions of segments: groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.dtypes import limits
from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.tensors.tensor import tensor

_PRIVATE = frozenset(globals())


def _unsorted(reduce: Callable[..., Any], empty: str = "") -> Callable[..., Any]:
    """Returns a reduction of groups of rows.

    Args:
        reduce: JAX's function.
        empty: The value of empty groups, "min" or "max" of the dtype; by default it is
            what `reduce` returns for them.
    """

    def segment(data: Array, segment_ids: Array, num_segments: int) -> Any:
        # Segment ids may have several dimensions.
        rows = data.reshape(segment_ids.size, *data.shape[segment_ids.ndim :])
        found = reduce(rows, segment_ids.reshape(-1), int(num_segments))
        if not empty:
            return found
        limit = getattr(limits(rows.dtype), empty)
        return jnp.where(_counts(found, segment_ids) == 0, limit, found)

    return segment


unsorted_segment_sum = _unsorted(jax.ops.segment_sum)
unsorted_segment_prod = _unsorted(jax.ops.segment_prod)
unsorted_segment_max = _unsorted(jax.ops.segment_max, empty="min")
unsorted_segment_min = _unsorted(jax.ops.segment_min, empty="max")


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: int) -> Any:
    total = unsorted_segment_sum(data, segment_ids, num_segments)
    return total / jnp.maximum(_counts(total, segment_ids), 1).astype(total.dtype)


def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: int) -> Any:
    total = unsorted_segment_sum(data, segment_ids, num_segments)
    counts = jnp.maximum(_counts(total, segment_ids), 1).astype(total.dtype)
    return total / jnp.sqrt(counts)


def _sorted(
    unsorted: Callable[..., Any], zero_if_empty: bool = False
) -> Callable[..., Any]:
    def segment(data: Array, segment_ids: Array) -> Any:
        found = unsorted(data, segment_ids, int(segment_ids[-1]) + 1)
        is_replaced = zero_if_empty & (_counts(found, segment_ids) == 0)
        return jnp.where(is_replaced, 0, found)

    return segment


segment_sum = _sorted(unsorted_segment_sum)
segment_prod = _sorted(unsorted_segment_prod)
segment_mean = _sorted(unsorted_segment_mean)
segment_max = _sorted(unsorted_segment_max, zero_if_empty=True)
segment_min = _sorted(unsorted_segment_min, zero_if_empty=True)


def _counts(found: Any, segment_ids: Any) -> Any:
    """Returns the number of rows of each group, in a shape that broadcasts."""
    counts = jnp.bincount(tensor(segment_ids).reshape(-1), length=found.shape[0])
    return counts.reshape(-1, *[1] * (found.ndim - 1))


operations(globals(), _PRIVATE)
