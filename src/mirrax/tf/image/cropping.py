"""Cropping and padding of images, and their patches."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.random.stateful import seeded
from mirrax.tf.tensors.tensor import sizes as as_sizes
from mirrax.tf.tensors.tensor import tensor

_PRIVATE = frozenset(globals())


def central_crop(image: Array, central_fraction: float) -> Any:
    """Returns the center of an image, this fraction of each side."""
    if not 0 < central_fraction <= 1:
        raise ValueError(
            "central_fraction must be within (0, 1]. Received: "
            f"central_fraction={central_fraction}."
        )
    height, width = image.shape[-3:-1]
    top = math.trunc((height - height * central_fraction) / 2)
    left = math.trunc((width - width * central_fraction) / 2)
    return image[..., top : height - top, left : width - left, :]


def crop_to_bounding_box(
    image: Array,
    offset_height: int,
    offset_width: int,
    target_height: int,
    target_width: int,
) -> Any:
    bottom, right = offset_height + target_height, offset_width + target_width
    if bottom > image.shape[-3] or right > image.shape[-2]:
        raise ValueError(
            "The box must lie within the image. Received: a box that ends at "
            f"({bottom}, {right}) for an image of shape {image.shape[-3:-1]}."
        )
    return image[..., offset_height:bottom, offset_width:right, :]


def pad_to_bounding_box(
    image: Array,
    offset_height: int,
    offset_width: int,
    target_height: int,
    target_width: int,
) -> Any:
    """Pads an image with zeros, so that it starts at the offset."""
    below = target_height - offset_height - image.shape[-3]
    right = target_width - offset_width - image.shape[-2]
    if min(below, right, offset_height, offset_width) < 0:
        raise ValueError(
            "The image must fit into the target at its offset. Received: an image of "
            f"shape {image.shape[-3:-1]} at ({offset_height}, {offset_width}) in "
            f"({target_height}, {target_width})."
        )
    widths = [(0, 0)] * (image.ndim - 3)
    widths += [(offset_height, below), (offset_width, right), (0, 0)]
    return jnp.pad(image, widths)


def _crop(key: Any, value: Any, size: Any) -> Any:
    array, wanted = tensor(value), as_sizes(size)
    room = jnp.array(array.shape) - jnp.array(wanted) + 1
    starts = jax.random.randint(key, (array.ndim,), 0, room)
    return jax.lax.dynamic_slice(array, starts, wanted)


random_crop, stateless_random_crop = seeded(_crop)


def extract_patches(
    images: Array, sizes: Any, strides: Any, rates: Any, padding: str
) -> Any:
    """Returns the patches of images, with the values of each in the last dimension."""
    (height, width), steps, rate = (_inner(x) for x in (sizes, strides, rates))
    patches = jax.lax.conv_general_dilated_patches(
        images,
        (height, width),
        steps,
        padding,
        rhs_dilation=rate,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=jax.lax.Precision.HIGHEST,
    )
    # JAX puts the channels first.
    shape = (*patches.shape[:-1], images.shape[-1], height, width)
    moved = jnp.moveaxis(patches.reshape(shape), -3, -1)
    return moved.reshape(patches.shape)


def _inner(given: Any) -> tuple[int, int]:
    _, first, second, _ = as_sizes(given)
    return first, second


operations(globals(), _PRIVATE)
