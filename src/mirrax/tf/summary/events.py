"""The records of an event file, encoded as Protobuf.

Event   { double wall_time = 1; int64 step = 2; string file_version = 3;
          Summary summary = 5; }
Summary { repeated Value value = 1; }
Value   { string tag = 1; float simple_value = 2; Histogram histo = 5;
          Tensor tensor = 8; Metadata metadata = 9; }
Histogram { double min = 1; double max = 2; double num = 3; double sum = 4;
          double sum_squares = 5; repeated double bucket_limit = 6, bucket = 7; }
Tensor  { int32 dtype = 1; Shape shape = 2; repeated bytes string_val = 8; }
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from mirrax.tf.summary import media

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_STRING = 7
_WAV = 11


def version_event(wall_time: float) -> bytes:
    """Returns the first record of a file."""
    return _double(1, wall_time) + _delimited(3, b"brain.Event:2")


def event(wall_time: float, step: int, tag: str, content: bytes) -> bytes:
    """Returns the record of one summary at one step."""
    summary = _delimited(1, _delimited(1, tag.encode()) + content)
    return (
        _double(1, wall_time)
        + _tag(2, _VARINT)
        + _varint(step)
        + _delimited(5, summary)
    )


def scalar(value: float) -> bytes:
    """Returns a number encoded for `event`."""
    return _tag(2, _FIXED32) + struct.pack("<f", value)


def histogram(values: np.ndarray[Any, Any], num_buckets: int) -> bytes:
    """Returns a histogram of values encoded for `event`."""
    flat = values.astype(np.float64).reshape(-1)
    if not flat.size:
        return _delimited(5, b"")
    counts, edges = np.histogram(flat, num_buckets)
    facts = (flat.min(), flat.max(), flat.size, flat.sum(), np.square(flat).sum())
    numbers = b"".join(_double(i, fact) for i, fact in enumerate(facts, 1))
    return _delimited(5, numbers + _doubles(6, edges[1:]) + _doubles(7, counts))


def text(strings: Sequence[bytes], shape: tuple[Any, ...]) -> bytes:
    """Returns strings encoded for `event`."""
    return _strings(strings, shape, b"text")


def images(values: np.ndarray[Any, Any]) -> bytes:
    """Returns images, k x height x width x channels, encoded for `event`."""
    height, width = values.shape[1:3]
    files = [media.png(one) for one in media.as_bytes(values)]
    texts = [str(width).encode(), str(height).encode(), *files]
    return _strings(texts, (len(texts),), b"images")


def sounds(values: np.ndarray[Any, Any], sample_rate: int) -> bytes:
    """Returns sounds, k x samples x channels, encoded for `event`."""
    files = [media.wav(one, sample_rate) for one in values]
    # Each sound has an empty label.
    texts = [text for file in files for text in (file, b"")]
    wav_format = _tag(2, _VARINT) + _varint(_WAV)
    return _strings(texts, (len(files), 2), b"audio", wav_format)


def _strings(
    strings: Sequence[bytes],
    shape: tuple[Any, ...],
    plugin: bytes,
    details: bytes = b"",
) -> bytes:
    """Returns a tensor of strings and the TensorBoard plugin that shows it."""
    sizes = b"".join(_delimited(2, _tag(1, _VARINT) + _varint(n)) for n in shape)
    values = b"".join(_delimited(8, string) for string in strings)
    tensor = _tag(1, _VARINT) + _varint(_STRING) + _delimited(2, sizes) + values
    about = _delimited(1, plugin) + (_delimited(2, details) if details else b"")
    return _delimited(8, tensor) + _delimited(9, _delimited(1, about))


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _double(number: int, value: float) -> bytes:
    return _tag(number, _FIXED64) + struct.pack("<d", value)


def _doubles(number: int, values: Any) -> bytes:
    return _delimited(number, np.asarray(values, "<f8").tobytes())


def _delimited(number: int, content: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
