"""One file with the bytes of many arrays, one after another."""

from __future__ import annotations

import math
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import google_crc32c
import numpy as np

# Few enough bytes to stay in the processor's cache, and to hold Python's lock briefly.
_CHUNK = 1 << 20


NAME = re.compile(r"mirrax-arrays-\d+")
"""The names of such files."""


def path_of(folder: pathlib.Path, order: int) -> pathlib.Path:
    """Returns the file of the checkpoint with this number."""
    return folder / f"mirrax-arrays-{order}"


def find(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of all checkpoints in a folder."""
    return [child for child in folder.iterdir() if NAME.fullmatch(child.name)]


def write(
    file: pathlib.Path, arrays: Mapping[str, np.ndarray[Any, Any]]
) -> dict[str, list[Any]]:
    """Writes arrays to disk; returns what `read` needs, as JSON values."""
    described = {}
    with file.open("xb") as stream:
        for name, array in arrays.items():
            checksum = 0
            for chunk in _chunks(np.ascontiguousarray(array)):
                checksum = google_crc32c.extend(checksum, chunk)
                stream.write(chunk.data)
            described[name] = [str(array.dtype), list(array.shape), checksum]
        stream.flush()
        os.fsync(stream.fileno())
    return described


def read(
    file: pathlib.Path, described: Mapping[str, list[Any]]
) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the arrays in a file; raises ValueError if any bit was changed."""
    kinds = {name: _kind(*kind) for name, (*kind, _) in described.items()}
    # First of all, since damaged sizes could ask for any amount of memory.
    expected = sum(dtype.itemsize * math.prod(shape) for dtype, shape in kinds.values())
    if file.stat().st_size != expected:
        raise ValueError(f"other bits than were written in {file.name}: its size")
    arrays = {}
    with file.open("rb") as stream:
        for name, (dtype, shape) in kinds.items():
            arrays[name] = np.empty(shape, dtype)
            checksum = 0
            for chunk in _chunks(arrays[name]):
                stream.readinto(chunk.data)
                checksum = google_crc32c.extend(checksum, chunk)
            if checksum != described[name][-1]:
                raise ValueError(f"other bits than were written in {file.name}: {name}")
    return arrays


def _kind(dtype: str, shape: list[int]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    kind = np.dtype(dtype)
    if kind.hasobject or any(size < 0 for size in shape):
        raise ValueError(f"an array of {dtype} with shape {shape}")
    return kind, tuple(shape)


def _chunks(array: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Returns views of the bytes of a contiguous array."""
    data = array.reshape(-1).view(np.uint8)
    return [data[start : start + _CHUNK] for start in range(0, data.size, _CHUNK)]
