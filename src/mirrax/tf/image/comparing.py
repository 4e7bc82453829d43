"""Differences between images and between neighboring pixels."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.image.colors import convert_image_dtype
from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.tensors.tensor import tensor


def psnr(a: Any, b: Any, max_val: Any) -> Any:
    """Returns the peak signal-to-noise ratio of each image, in dB."""
    scale = convert_image_dtype(tensor(max_val, tensor(a).dtype), jnp.float32)
    first, second = (convert_image_dtype(x, jnp.float32) for x in (a, b))
    error = jnp.mean(jnp.square(first - second), axis=(-3, -2, -1))
    return 20 * jnp.log10(scale) - 10 * jnp.log10(error)


def total_variation(images: Array) -> Any:
    """Returns the sum of differences between neighboring pixels, for each image."""
    down = jnp.abs(jnp.diff(images, axis=-3)).sum((-3, -2, -1))
    return down + jnp.abs(jnp.diff(images, axis=-2)).sum((-3, -2, -1))


def image_gradients(image: Array) -> Any:
    """Returns differences to the pixel below and to the right, zero at the edge."""
    down = jnp.pad(jnp.diff(image, axis=1), ((0, 0), (0, 1), (0, 0), (0, 0)))
    right = jnp.pad(jnp.diff(image, axis=2), ((0, 0), (0, 0), (0, 1), (0, 0)))
    return down, right


def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Any:
    """Returns how similar the structures of two images are, at most 1."""
    x, y = (tensor(image).astype(jnp.float32) for image in (img1, img2))
    offsets = jnp.arange(filter_size) - (filter_size - 1) / 2
    weights = jax.nn.softmax(-jnp.square(offsets) / (2 * filter_sigma**2))

    def blur(image: Any) -> Any:
        for axis in (-3, -2):
            image = jnp.apply_along_axis(jnp.convolve, axis, image, weights, "valid")
        return image

    c1, c2 = (k1 * max_val) ** 2, (k2 * max_val) ** 2
    mean_x, mean_y = blur(x), blur(y)
    products, squares = 2 * mean_x * mean_y, mean_x**2 + mean_y**2
    contrast = (2 * blur(x * y) - products + c2) / (blur(x**2 + y**2) - squares + c2)
    index = (products + c1) / (squares + c1) * contrast
    return index.mean(-1) if return_index_map else index.mean((-3, -2, -1))


operations(globals())
