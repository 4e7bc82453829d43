"""Patches of images."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.tensors import tensor as tensors


def extract_patches(
    images: Any, sizes: Any, strides: Any, rates: Any, padding: str, name: Any = None
) -> Any:
    """Returns the patches of images, with the values of each in the last dimension."""
    array = tensors.tensor(images)
    (height, width), steps, rate = (_inner(x) for x in (sizes, strides, rates))
    patches = jax.lax.conv_general_dilated_patches(
        array,
        (height, width),
        steps,
        padding,
        rhs_dilation=rate,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=jax.lax.Precision.HIGHEST,
    )
    # JAX puts the channels first.
    shape = (*patches.shape[:-1], array.shape[-1], height, width)
    moved = jnp.moveaxis(patches.reshape(shape), -3, -1)
    return moved.reshape(patches.shape)


def _inner(given: Any) -> tuple[int, int]:
    _, first, second, _ = tensors.sizes(given)
    return first, second
