"""Clipping of gradients."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from mirrax.tf.linalg import global_norm
from mirrax.tf.math.elementwise import clip_by_value as clip_by_value
from mirrax.tf.math.elementwise import maximum
from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.tensors.tensor import axes as to_axes
from mirrax.tf.tensors.tensor import tensor

__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value"]


def clip_by_norm(t: Array, clip_norm: Any, axes: Any = None) -> Any:
    total = jnp.sum(jnp.square(t), to_axes(axes), keepdims=True)
    is_positive = total > 0
    size = jnp.where(is_positive, jnp.sqrt(jnp.where(is_positive, total, 1)), total)
    return t * clip_norm / maximum(size, clip_norm)


def clip_by_global_norm(
    t_list: Any, clip_norm: Any, use_norm: Any = None
) -> tuple[list[Any], Any]:
    norm = global_norm(t_list) if use_norm is None else tensor(use_norm)
    scale = clip_norm * jnp.minimum(1 / norm, 1 / clip_norm)
    # A norm that is not finite makes every gradient NaN, so that users notice.
    scale = jnp.where(jnp.isfinite(norm), scale, jnp.nan)
    return [None if t is None else tensor(t) * scale for t in t_list], norm


operations(globals())
