"""Images as files, read and written with Pillow."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from mirrax.tf.io.files import path_of
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.tensor import string_tensor

__all__ = [
    "decode_bmp",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "encode_jpeg",
    "encode_png",
]

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = np.uint8,
    name: Any = None,
    expand_animations: bool = True,
) -> Any:
    """Returns an image file as an array of height, width and channels.

    Args:
        contents: The bytes of the file.
        channels: 1 for gray, 3 for colors, 4 with transparency; by default as the file.
        dtype: Of floats, the values are between 0 and 1.
        expand_animations: Ignored: the first image of an animation is read.
    """
    data = contents.item() if hasattr(contents, "item") else contents
    image = _pillow().open(io.BytesIO(data))
    if channels:
        image = image.convert(_MODES[int(channels)])
    elif image.mode not in _MODES.values():
        image = image.convert("RGB")
    array = np.asarray(image)
    array = array[..., None] if array.ndim == 2 else array
    is_float = np.issubdtype(np.dtype(dtype), np.floating)
    return host((array / 255 if is_float else array).astype(dtype))


def decode_jpeg(contents: Any, channels: int = 0, *_: Any, **__: Any) -> Any:
    return decode_image(contents, channels)


def decode_png(contents: Any, channels: int = 0, dtype: Any = np.uint8) -> Any:
    return decode_image(contents, channels, dtype)


def decode_bmp(contents: Any, channels: int = 0, name: Any = None) -> Any:
    return decode_image(contents, channels)


def encode_jpeg(image: Any, format: str = "", quality: int = 95, **_: Any) -> Any:
    """Returns the bytes of a JPEG file."""
    return _encode(image, "JPEG", quality=quality)


def encode_png(image: Any, compression: int = -1, name: Any = None) -> Any:
    """Returns the bytes of a PNG file."""
    return _encode(image, "PNG")


def read_image(path: Any, channels: int) -> Any:
    """Returns the pixels of a file."""
    with open(path_of(path), "rb") as file:
        return decode_image(file.read(), channels)


def _encode(image: Any, kind: str, **options: Any) -> Any:
    array = np.asarray(image)
    pixels = array[..., 0] if array.shape[-1] == 1 else array
    file = io.BytesIO()
    _pillow().fromarray(pixels).save(file, kind, **options)
    return string_tensor(file.getvalue())


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "Image files are read and written with Pillow, which is not installed. "
            "Install `pillow`."
        ) from error
    return Image
