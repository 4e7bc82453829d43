"""Resizing of images."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.tensors.tensor import sizes

_PRIVATE = frozenset(globals())


class ResizeMethod:
    """The interpolation methods."""

    AREA = "area"
    BICUBIC = "bicubic"
    BILINEAR = "bilinear"
    GAUSSIAN = "gaussian"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    MITCHELLCUBIC = "mitchellcubic"
    NEAREST_NEIGHBOR = "nearest"


_METHODS = {
    ResizeMethod.BICUBIC: "cubic",
    ResizeMethod.BILINEAR: "linear",
    ResizeMethod.LANCZOS3: "lanczos3",
    ResizeMethod.LANCZOS5: "lanczos5",
    ResizeMethod.NEAREST_NEIGHBOR: "nearest",
}


def resize(
    images: Array,
    size: Any,
    method: str = ResizeMethod.BILINEAR,
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
) -> Any:
    """Resizes an image or a batch; returns floats, except for NEAREST_NEIGHBOR."""
    if method not in (*_METHODS, ResizeMethod.AREA):
        raise NotImplementedError(
            f"`method` must be one of {sorted([*_METHODS, ResizeMethod.AREA])}. "
            f"Received: {method!r}."
        )
    height, width = _size(images, size, preserve_aspect_ratio)
    is_nearest = method == ResizeMethod.NEAREST_NEIGHBOR
    if not is_nearest:
        images = images.astype(jnp.float32)
    if method == ResizeMethod.AREA:
        rows, columns = (
            _areas(images.shape[-3], height),
            _areas(images.shape[-2], width),
        )
        return jnp.einsum("ij,...jkc,lk->...ilc", rows, images, columns)
    shape = (*images.shape[:-3], height, width, images.shape[-1])
    return jax.image.resize(images, shape, _METHODS[method], antialias=antialias)


def _areas(old: int, new: int) -> Any:
    """Returns the share of each old pixel in each new one, along an axis."""
    edges = jnp.arange(new + 1) * (old / new)
    pixels = jnp.arange(old)
    ends = jnp.minimum(edges[1:, None], pixels + 1)
    return jnp.clip(ends - jnp.maximum(edges[:-1, None], pixels), 0) * (new / old)


def _size(array: Any, size: Any, keeps_ratio: bool) -> tuple[int, int]:
    height, width = sizes(size)
    if not keeps_ratio:
        return height, width
    old_height, old_width = array.shape[-3:-1]
    scale = min(height / old_height, width / old_width)
    return round(old_height * scale), round(old_width * scale)


def resize_with_crop_or_pad(image: Array, target_height: Any, target_width: Any) -> Any:
    """Crops an image centrally, or pads it with zeros, to a target size."""
    for axis, target in ((-3, int(target_height)), (-2, int(target_width))):
        extra = target - image.shape[axis]
        if extra < 0:
            start = -extra // 2
            image = jax.lax.slice_in_dim(image, start, start + target, axis=axis)
        else:
            image = _padded(image, axis, extra // 2, extra - extra // 2)
    return image


def resize_with_pad(
    image: Array,
    target_height: Any,
    target_width: Any,
    method: str = ResizeMethod.BILINEAR,
    antialias: bool = False,
) -> Any:
    """Resizes an image, keeps its aspect ratio, and pads it with zeros."""
    height, width = int(target_height), int(target_width)
    ratio = max(image.shape[-2] / width, image.shape[-3] / height)
    inner = (image.shape[-3] / ratio, image.shape[-2] / ratio)
    resized = resize(image, [int(n) for n in inner], method, antialias=antialias)
    for axis, target, exact in ((-3, height, inner[0]), (-2, width, inner[1])):
        before = max(0, math.floor((target - exact) / 2))
        resized = _padded(resized, axis, before, target - before - int(exact))
    return resized


def _padded(array: Any, axis: int, before: int, after: int) -> Any:
    widths = [(0, 0)] * array.ndim
    widths[axis] = (before, after)
    return jnp.pad(array, widths)


operations(globals(), _PRIVATE)
