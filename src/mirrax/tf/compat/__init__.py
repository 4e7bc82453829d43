"""`tf.compat`: version 1, and conversions between text and bytes."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from mirrax.tf.compat import v1 as v1
from mirrax.tf.namespaces.missing_names import names_of

_missing = names_of("tf.compat")

bytes_or_text_types = (bytes, str)
integral_types = (int, np.integer)
real_types = (int, np.integer, float, np.floating)
complex_types = (complex, np.number)


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Returns text or bytes as bytes."""
    if isinstance(bytes_or_text, bytes | bytearray):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Returns bytes or text as text."""
    return as_bytes(bytes_or_text, encoding).decode(encoding)


as_str = as_text


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Returns any value as text."""
    return as_text(value, encoding) if isinstance(value, bytes | str) else str(value)


def path_to_str(path: Any) -> Any:
    return as_str_any(os.fspath(path)) if hasattr(path, "__fspath__") else path


def dimension_value(dimension: Any) -> Any:
    """Returns a dimension, which is already a number in version 2."""
    return dimension


def dimension_at_index(shape: Any, index: int) -> Any:
    return shape[index]


def __getattr__(name: str) -> Any:
    # Imported late: `mirrax.tf` imports this module.
    return importlib.import_module("mirrax.tf") if name == "v2" else _missing(name)
