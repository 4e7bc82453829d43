"""Differences between images and between neighboring pixels."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from mirrax.tf.image.colors import convert_image_dtype
from mirrax.tf.tensors.tensor import tensor


def psnr(a: Any, b: Any, max_val: Any, name: Any = None) -> Any:
    """Returns the peak signal-to-noise ratio of each image, in dB."""
    scale = convert_image_dtype(tensor(max_val, tensor(a).dtype), jnp.float32)
    first, second = (convert_image_dtype(x, jnp.float32) for x in (a, b))
    error = jnp.mean(jnp.square(first - second), axis=(-3, -2, -1))
    return 20 * jnp.log10(scale) - 10 * jnp.log10(error)


def total_variation(images: Any, name: Any = None) -> Any:
    """Returns the sum of differences between neighboring pixels, for each image."""
    array = tensor(images)
    down = jnp.abs(jnp.diff(array, axis=-3)).sum((-3, -2, -1))
    return down + jnp.abs(jnp.diff(array, axis=-2)).sum((-3, -2, -1))


def image_gradients(image: Any) -> Any:
    """Returns differences to the pixel below and to the right, zero at the edge."""
    array = tensor(image)
    down = jnp.pad(jnp.diff(array, axis=1), ((0, 0), (0, 1), (0, 0), (0, 0)))
    right = jnp.pad(jnp.diff(array, axis=2), ((0, 0), (0, 0), (0, 1), (0, 0)))
    return down, right
