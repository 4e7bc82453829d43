"""Convolutions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mirrax.tf.namespaces.operations import Array, operations
from mirrax.tf.nn.windows import Windows, spatial, windows
from mirrax.tf.tensors.tensor import sizes

_PRIVATE = frozenset(globals())


def convolution(
    input: Array,
    filters: Array,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    return _convolve(input, filters, strides, padding, data_format, dilations)


def conv1d(
    input: Any,
    filters: Any,
    stride: Any,
    padding: Any,
    data_format: str = "NWC",
    dilations: Any = None,
) -> Any:
    return convolution(input, filters, stride, padding, data_format, dilations)


# The filters determine the number of dimensions.
conv2d = conv3d = convolution


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: Any) -> Any:
    return convolution(value, filters, 1, padding, "NHWC", rate)


def depthwise_conv2d(
    input: Array,
    filter: Array,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    channels = filter.shape[2]
    filter = filter.reshape(*filter.shape[:2], 1, -1)
    return _convolve(input, filter, strides, padding, data_format, dilations, channels)


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    between = depthwise_conv2d(
        input, depthwise_filter, strides, padding, data_format, dilations
    )
    return convolution(between, pointwise_filter, 1, "VALID", data_format)


def conv_transpose(
    input: Array,
    filters: Array,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """Returns the transposed convolution: the gradient of the forward one."""
    shape = _whole_shape(sizes(output_shape), input, filters, data_format)

    def forward(image: Any) -> Any:
        return _convolve(image, filters, strides, padding, data_format, dilations)

    (result,) = jax.linear_transpose(forward, jax.ShapeDtypeStruct(shape, input.dtype))(
        input
    )
    return result


conv1d_transpose = conv2d_transpose = conv3d_transpose = conv_transpose


def _convolve(
    array: Any,
    kernel: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    dilations: Any,
    groups: int | None = None,
) -> Any:
    found: Windows = windows(kernel.ndim - 2, strides, padding, data_format, dilations)
    channels = array.shape[1 if found.channels_first else -1]
    # In TensorFlow the channels determine the number of groups.
    count = channels // kernel.shape[-2] if groups is None else groups
    axes = spatial(kernel.ndim - 2)
    layout = f"NC{axes}" if found.channels_first else f"N{axes}C"
    result = lax.conv_general_dilated(
        array,
        kernel,
        found.strides,
        found.padding,
        rhs_dilation=found.dilations,
        dimension_numbers=(layout, f"{axes}IO", layout),
        feature_group_count=count,
    )
    return jnp.asarray(result)


def _whole_shape(
    shape: tuple[int, ...], array: Any, kernel: Any, data_format: str | None
) -> tuple[int, ...]:
    if len(shape) == array.ndim:
        return shape
    channels = kernel.shape[-2]
    first = data_format is not None and data_format.startswith("NC")
    inner = (channels, *shape) if first else (*shape, channels)
    return (array.shape[0], *inner)


operations(globals(), _PRIVATE)
