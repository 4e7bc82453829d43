"""The records of an event file, encoded as Protobuf; images as PNG, sounds as WAV.

Event   { double wall_time = 1; int64 step = 2; string file_version = 3;
          Summary summary = 5; }
Summary { repeated Value value = 1; }
Value   { string tag = 1; float simple_value = 2; Histogram histo = 5;
          Tensor tensor = 8; Metadata metadata = 9; }
Histogram { double min = 1; double max = 2; double num = 3; double sum = 4;
          double sum_squares = 5; repeated double bucket_limit = 6, bucket = 7; }
Tensor  { int32 dtype = 1; Shape shape = 2; bytes tensor_content = 4;
          repeated bytes string_val = 8; }
"""

from __future__ import annotations

import io
import struct
import wave
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from mirrax.data.example.protobuf import delimited, varint

_VARINT, _FIXED64, _FIXED32 = 0, 1, 5
_STRING = 7
_WAV = 11
# PNG's color type for each number of channels.
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
# TensorFlow's number for each dtype.
_DTYPES = {"f4": 1, "f8": 2, "i4": 3, "u1": 4, "i2": 5, "i1": 6, "i8": 9, "b1": 10}


def version_event(wall_time: float) -> bytes:
    """Returns the first record of a file."""
    return _double(1, wall_time) + delimited(3, b"brain.Event:2")


def event(wall_time: float, step: int, tag: str, content: bytes) -> bytes:
    """Returns the record of one summary at one step."""
    summary = delimited(1, delimited(1, tag.encode()) + content)
    return (
        _double(1, wall_time)
        + _tag(2, _VARINT)
        + varint(step & (1 << 64) - 1)
        + delimited(5, summary)
    )


def scalar(value: float) -> bytes:
    """Returns a number encoded for `event`."""
    return _tag(2, _FIXED32) + struct.pack("<f", value)


def histogram(values: np.ndarray[Any, Any], num_buckets: int) -> bytes:
    """Returns a histogram of values encoded for `event`."""
    flat = values.astype(np.float64).reshape(-1)
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return delimited(5, b"")
    counts, edges = np.histogram(flat, num_buckets)
    facts = (flat.min(), flat.max(), flat.size, flat.sum(), np.square(flat).sum())
    numbers = b"".join(_double(i, fact) for i, fact in enumerate(facts, 1))
    return delimited(5, numbers + _doubles(6, edges[1:]) + _doubles(7, counts))


def images(values: np.ndarray[Any, Any]) -> bytes:
    """Returns images, k x height x width x channels, encoded for `event`."""
    height, width = values.shape[1:3]
    files = [_png(one) for one in _as_bytes(values)]
    texts = [str(width).encode(), str(height).encode(), *files]
    return _strings(texts, (len(texts),), b"images")


def sounds(values: np.ndarray[Any, Any], sample_rate: int) -> bytes:
    """Returns sounds, k x samples x channels, encoded for `event`."""
    files = [_wav(one, sample_rate) for one in values]
    # Each sound has an empty label.
    texts = [text for file in files for text in (file, b"")]
    wav_format = _tag(2, _VARINT) + varint(_WAV)
    return _strings(texts, (len(files), 2), b"audio", wav_format)


def tensor(value: np.ndarray[Any, Any], plugin: str, details: bytes = b"") -> bytes:
    """Returns a tensor, and the plugin that shows it, encoded for `event`."""
    if value.dtype.kind in "OSU":
        texts = [x if isinstance(x, bytes) else str(x).encode() for x in value.flat]
        return _strings(texts, value.shape, plugin.encode(), details)
    numbers = value if value.dtype.str[1:] in _DTYPES else value.astype(np.float32)
    content = delimited(4, np.ascontiguousarray(numbers).tobytes())
    kind = _DTYPES[numbers.dtype.str[1:]]
    return _tensor(kind, numbers.shape, content, plugin.encode(), details)


def _strings(
    strings: Sequence[bytes],
    shape: tuple[Any, ...],
    plugin: bytes,
    details: bytes = b"",
) -> bytes:
    """Returns a tensor of strings and the TensorBoard plugin that shows it."""
    values = b"".join(delimited(8, string) for string in strings)
    return _tensor(_STRING, shape, values, plugin, details)


def _tensor(
    dtype: int, shape: tuple[Any, ...], values: bytes, plugin: bytes, details: bytes
) -> bytes:
    sizes = b"".join(delimited(2, _tag(1, _VARINT) + varint(n)) for n in shape)
    tensor = _tag(1, _VARINT) + varint(dtype) + delimited(2, sizes) + values
    about = delimited(1, plugin) + (delimited(2, details) if details else b"")
    return delimited(8, tensor) + delimited(9, delimited(1, about))


def _png(image: np.ndarray[Any, Any]) -> bytes:
    """Returns an image, height x width x channels of bytes, as a PNG file."""
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


def _wav(sound: np.ndarray[Any, Any], sample_rate: int) -> bytes:
    """Returns a sound, samples x channels in [-1, 1], as a 16-bit WAV file."""
    samples = np.round(np.clip(sound, -1, 1) * 32767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(sound.shape[1])
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(samples.tobytes())
    return file.getvalue()


def _as_bytes(images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns images, floats in [0, 1] or bytes, as bytes."""
    if images.dtype == np.uint8:
        return images
    scaled = np.floor(images.astype(np.float64) * 255.5)
    return np.clip(scaled, 0, 255).astype(np.uint8)


def _tag(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def _double(number: int, value: float) -> bytes:
    return _tag(number, _FIXED64) + struct.pack("<d", value)


def _doubles(number: int, values: Any) -> bytes:
    return delimited(number, np.asarray(values, "<f8").tobytes())
