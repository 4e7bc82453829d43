"""Encoding of images as PNG and of sounds as WAV."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from typing import Any

import numpy as np

_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
"""PNG's color type for each number of channels."""


def png(image: np.ndarray[Any, Any]) -> bytes:
    """Returns an image, height x width x channels of bytes, as a PNG file.

    >>> png(np.zeros((1, 1, 3), np.uint8))[1:4]
    b'PNG'
    """
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    # Each row starts with its filter type: 0, none.
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = image.reshape(height, -1)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + check


def wav(sound: np.ndarray[Any, Any], sample_rate: int) -> bytes:
    """Returns a sound, samples x channels in [-1, 1], as a 16-bit WAV file."""
    samples = np.round(np.clip(sound, -1, 1) * 32767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(sound.shape[1])
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(samples.tobytes())
    return file.getvalue()


def as_bytes(images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns images, floats in [0, 1] or bytes, as bytes."""
    if images.dtype == np.uint8:
        return images
    scaled = np.floor(images.astype(np.float64) * 255.5)
    return np.clip(scaled, 0, 255).astype(np.uint8)
