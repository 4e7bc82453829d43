"""Cropping and padding of images, and their patches."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.exports import defined_after
from mirrax.tf.random.ambient import next_key
from mirrax.tf.random.stateless import key_of
from mirrax.tf.tensors.tensor import sizes as as_sizes
from mirrax.tf.tensors.tensor import tensor

_PRIVATE = frozenset(globals())


def central_crop(image: Any, central_fraction: float) -> Any:
    """Returns the center of an image, this fraction of each side."""
    if not 0 < central_fraction <= 1:
        raise ValueError(
            "central_fraction must be within (0, 1]. Received: "
            f"central_fraction={central_fraction}."
        )
    array = tensor(image)
    height, width = array.shape[-3:-1]
    top = math.trunc((height - height * central_fraction) / 2)
    left = math.trunc((width - width * central_fraction) / 2)
    return array[..., top : height - top, left : width - left, :]


def crop_to_bounding_box(
    image: Any,
    offset_height: int,
    offset_width: int,
    target_height: int,
    target_width: int,
) -> Any:
    array = tensor(image)
    bottom, right = offset_height + target_height, offset_width + target_width
    if bottom > array.shape[-3] or right > array.shape[-2]:
        raise ValueError(
            "The box must lie within the image. Received: a box that ends at "
            f"({bottom}, {right}) for an image of shape {array.shape[-3:-1]}."
        )
    return array[..., offset_height:bottom, offset_width:right, :]


def pad_to_bounding_box(
    image: Any,
    offset_height: int,
    offset_width: int,
    target_height: int,
    target_width: int,
) -> Any:
    """Pads an image with zeros, so that it starts at the offset."""
    array = tensor(image)
    below = target_height - offset_height - array.shape[-3]
    right = target_width - offset_width - array.shape[-2]
    if min(below, right, offset_height, offset_width) < 0:
        raise ValueError(
            "The image must fit into the target at its offset. Received: an image of "
            f"shape {array.shape[-3:-1]} at ({offset_height}, {offset_width}) in "
            f"({target_height}, {target_width})."
        )
    widths = [(0, 0)] * (array.ndim - 3)
    widths += [(offset_height, below), (offset_width, right), (0, 0)]
    return jnp.pad(array, widths)


def random_crop(value: Any, size: Any, seed: Any = None, name: Any = None) -> Any:
    """Returns a part of this size at a random offset."""
    return _crop(value, size, next_key(seed))


def stateless_random_crop(value: Any, size: Any, seed: Any, name: Any = None) -> Any:
    return _crop(value, size, key_of(seed))


def _crop(value: Any, size: Any, key: Any) -> Any:
    array, wanted = tensor(value), as_sizes(size)
    room = jnp.array(array.shape) - jnp.array(wanted) + 1
    starts = jax.random.randint(key, (array.ndim,), 0, room)
    return jax.lax.dynamic_slice(array, starts, wanted)


def extract_patches(
    images: Any, sizes: Any, strides: Any, rates: Any, padding: str, name: Any = None
) -> Any:
    """Returns the patches of images, with the values of each in the last dimension."""
    array = tensor(images)
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
    _, first, second, _ = as_sizes(given)
    return first, second


__all__ = list(defined_after(_PRIVATE, globals()))
