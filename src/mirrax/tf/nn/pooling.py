"""Pooling."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.nn.windows import along_axes, windows

_PRIVATE = frozenset(globals())


def max_pool(
    input: Array, ksize: Any, strides: Any, padding: Any, data_format: str | None = None
) -> Any:
    is_float = jnp.issubdtype(input.dtype, jnp.floating)
    lowest = -np.inf if is_float else np.iinfo(input.dtype).min
    start = np.array(lowest, input.dtype)
    return _pool(input, ksize, strides, padding, data_format, start, lax.max)


def avg_pool(
    input: Array, ksize: Any, strides: Any, padding: Any, data_format: str | None = None
) -> Any:
    """Returns means; padding does not count."""
    zero = np.array(0, input.dtype)
    options = (ksize, strides, padding, data_format, zero, lax.add)
    return _pool(input, *options) / _pool(jnp.ones_like(input), *options)


def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    kinds = {"MAX": max_pool, "AVG": avg_pool}
    if pooling_type not in kinds or dilations not in (None, 1):
        raise ValueError(
            "`pooling_type` must be 'MAX' or 'AVG', without dilations. Received: "
            f"pooling_type={pooling_type!r}, dilations={dilations!r}."
        )
    return kinds[pooling_type](input, window_shape, strides or 1, padding, data_format)


max_pool1d = max_pool2d = max_pool3d = max_pool
avg_pool1d = avg_pool2d = avg_pool3d = avg_pool


def _pool(
    array: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    start: Any,
    combine: Any,
) -> Any:
    ndim = array.ndim - 2
    found = windows(ndim, strides, padding, data_format)

    def whole(spatial: Any, other: Any) -> Any:
        """Returns values for all axes; `other` is that of the batch and channels."""
        if found.channels_first:
            return (other, other, *spatial)
        return (other, *spatial, other)

    size = along_axes(ksize, ndim, found.channels_first)
    around: Any = found.padding
    around = around if isinstance(around, str) else whole(around, (0, 0))
    sides = whole(size, 1), whole(found.strides, 1)
    return lax.reduce_window(array, start, combine, *sides, around)


operations(globals(), _PRIVATE)
