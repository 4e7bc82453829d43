"""Brightness, contrast and colors of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mirrax.tf.dtypes import canonical, limits
from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.random.stateful import seeded
from mirrax.tf.tensors.tensor import tensor

_PRIVATE = frozenset(globals())


def convert_image_dtype(image: Array, dtype: Any, saturate: bool = False) -> Any:
    """Converts an image: floats are in [0, 1], integers use the range of the dtype."""
    array, kind = image, canonical(dtype)
    was_integer, is_integer = (
        jnp.issubdtype(x, jnp.integer) for x in (array.dtype, kind)
    )
    if array.dtype == kind:
        return array
    if was_integer and is_integer:
        old, new = limits(array.dtype).max, limits(kind).max
        if old > new:
            return _cast(array // ((old + 1) // (new + 1)), kind, saturate)
        return _cast(array, kind, saturate) * ((new + 1) // (old + 1))
    if was_integer:
        return array.astype(kind) * (1.0 / limits(array.dtype).max)
    if is_integer:
        return _cast(array * (limits(kind).max + 0.5), kind, saturate)
    return array.astype(kind)


def _cast(array: Any, kind: Any, saturate: bool) -> Any:
    if saturate:
        array = jnp.clip(array, limits(kind).min, limits(kind).max)
    return array.astype(kind)


def _in_floats(change: Callable[[Any], Any], image: Any) -> Any:
    """Applies `change` in floating point; returns the image in its own dtype."""
    array = tensor(image)
    if jnp.issubdtype(array.dtype, jnp.floating):
        return change(array)
    changed = change(convert_image_dtype(array, jnp.float32))
    return convert_image_dtype(changed, array.dtype, saturate=True)


def adjust_brightness(image: Any, delta: Any) -> Any:
    return _in_floats(lambda array: array + jnp.asarray(delta, array.dtype), image)


def adjust_contrast(images: Any, contrast_factor: Any) -> Any:
    def change(array: Any) -> Any:
        mean = jnp.mean(array, axis=(-3, -2), keepdims=True)
        return (array - mean) * contrast_factor + mean

    return _in_floats(change, images)


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Any:
    if not isinstance(gamma, jax.core.Tracer) and gamma < 0:
        raise ValueError(
            f"Gamma should be a non-negative real number. Received: gamma={gamma}."
        )
    return _in_floats(lambda array: gain * array**gamma, image)


def adjust_saturation(image: Any, saturation_factor: Any) -> Any:
    def change(array: Any) -> Any:
        hue, saturation, value = jnp.split(rgb_to_hsv(array), 3, -1)
        saturation = jnp.clip(saturation * saturation_factor, 0, 1)
        return hsv_to_rgb(jnp.concatenate([hue, saturation, value], -1))

    return _in_floats(change, image)


def adjust_hue(image: Any, delta: Any) -> Any:
    def change(array: Any) -> Any:
        hue, rest = jnp.split(rgb_to_hsv(array), [1], -1)
        return hsv_to_rgb(jnp.concatenate([(hue + delta) % 1.0, rest], -1))

    return _in_floats(change, image)


def _brightness(key: Any, image: Any, max_delta: Any) -> Any:
    return adjust_brightness(image, _drawn(key, -max_delta, max_delta))


def _contrast(key: Any, image: Any, lower: Any, upper: Any) -> Any:
    return adjust_contrast(image, _drawn(key, lower, upper))


def _saturation(key: Any, image: Any, lower: Any, upper: Any) -> Any:
    return adjust_saturation(image, _drawn(key, lower, upper))


def _hue(key: Any, image: Any, max_delta: Any) -> Any:
    return adjust_hue(image, _drawn(key, -max_delta, max_delta))


random_brightness, stateless_random_brightness = seeded(_brightness)
random_contrast, stateless_random_contrast = seeded(_contrast)
random_saturation, stateless_random_saturation = seeded(_saturation)
random_hue, stateless_random_hue = seeded(_hue)


def _drawn(key: Any, low: Any, high: Any) -> Any:
    return jax.random.uniform(key, (), minval=low, maxval=high)


def per_image_standardization(image: Array) -> Any:
    """Returns images, each with mean 0 and variance 1."""
    image = image if jnp.issubdtype(image.dtype, jnp.floating) else image * 1.0
    axes = (-3, -2, -1)
    count = image.shape[-3] * image.shape[-2] * image.shape[-1]
    spread = jnp.maximum(jnp.std(image, axes, keepdims=True), count**-0.5)
    return (image - jnp.mean(image, axes, keepdims=True)) / spread


def rgb_to_grayscale(images: Any) -> Any:
    weights = jnp.array([0.2989, 0.5870, 0.1140])
    return _in_floats(
        lambda array: (array @ weights.astype(array.dtype))[..., None], images
    )


def grayscale_to_rgb(images: Array) -> Any:
    return jnp.repeat(images, 3, axis=-1)


def rgb_to_hsv(images: Array) -> Any:
    red, green, blue = jnp.moveaxis(images, -1, 0)
    value = jnp.maximum(jnp.maximum(red, green), blue)
    span = value - jnp.minimum(jnp.minimum(red, green), blue)
    known = jnp.where(span > 0, span, 1)
    hue = jnp.where(
        value == red,
        (green - blue) / known,
        jnp.where(value == green, (blue - red) / known + 2, (red - green) / known + 4),
    )
    hue = jnp.where(span > 0, (hue / 6) % 1, 0)
    saturation = jnp.where(value > 0, span / jnp.where(value > 0, value, 1), 0)
    return jnp.stack([hue, saturation, value], -1)


def hsv_to_rgb(images: Array) -> Any:
    hue, saturation, value = jnp.moveaxis(images, -1, 0)
    distance = hue * 6
    shares = (
        jnp.clip(jnp.abs(distance - 3) - 1, 0, 1),
        jnp.clip(2 - jnp.abs(distance - 2), 0, 1),
        jnp.clip(2 - jnp.abs(distance - 4), 0, 1),
    )
    rest = 1 - saturation
    return jnp.stack([(rest + saturation * x) * value for x in shares], -1)


operations(globals(), _PRIVATE)
