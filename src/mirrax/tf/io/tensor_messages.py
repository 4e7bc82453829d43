"""`serialize_tensor` and `parse_tensor`: tensors as bytes, in TensorFlow's format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from mirrax.errors import InvalidArgumentError
from mirrax.tf.dtypes import string
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.tensor import string_tensor, tensor

# The numbers of dtypes in `TensorProto`.
_NUMBERS = {
    np.dtype(kind): number
    for kind, number in (
        ("float32", 1),
        ("float64", 2),
        ("int32", 3),
        ("uint8", 4),
        ("int16", 5),
        ("int8", 6),
        (string, 7),
        ("complex64", 8),
        ("int64", 9),
        ("bool", 10),
        (jnp.bfloat16, 14),
        ("uint16", 17),
        ("complex128", 18),
        ("float16", 19),
        ("uint32", 22),
        ("uint64", 23),
    )
}
_KINDS = {number: kind for kind, number in _NUMBERS.items()}

# The fields of `TensorProto`; of its shape and their dimensions.
_DTYPE, _SHAPE, _CONTENT, _STRINGS = 1, 2, 4, 8
_DIMENSION, _SIZE = 2, 1

_VARINT, _BYTES = 0, 2


def serialize_tensor(tensor: Any, name: Any = None) -> Any:
    """Returns a tensor as bytes, which `parse_tensor` and TensorFlow read."""
    array = np.asarray(_tensor(tensor))
    shape = b"".join(
        _field(_DIMENSION, _field(_SIZE, size) if size else b"") for size in array.shape
    )
    head = _field(_DTYPE, _NUMBERS[array.dtype]) + _field(_SHAPE, shape)
    if array.dtype == string:
        return host(head + b"".join(_field(_STRINGS, x) for x in array.flat))
    content = array.tobytes()
    return host(head + _field(_CONTENT, content) if content else head)


def parse_tensor(serialized: Any, out_type: Any, name: Any = None) -> Any:
    """Returns the tensor in bytes that `serialize_tensor` made, here or in TensorFlow.

    Args:
        serialized: The bytes.
        out_type: The dtype, which must be that of the tensor.
    """
    try:
        fields = list(_fields(np.asarray(serialized, object).item()))
        kind = _KINDS[next(value for number, value in fields if number == _DTYPE)]
        shape = [
            next((size for number, size in _fields(dimension) if number == _SIZE), 0)
            for number, message in fields
            if number == _SHAPE
            for _, dimension in _fields(message)
        ]
        if kind == string:
            texts = [value for number, value in fields if number == _STRINGS]
            found = string_tensor(texts).reshape(shape)
        else:
            content = b"".join(value for number, value in fields if number == _CONTENT)
            found = host(np.frombuffer(content, kind).reshape(shape).copy())
    except (IndexError, KeyError, StopIteration, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"`parse_tensor` takes what `serialize_tensor` returned. Received: "
            f"{serialized!r}."
        ) from error
    if kind != np.dtype(out_type):
        raise InvalidArgumentError(
            f"`out_type` must be the dtype of the tensor, {kind}. Received: {out_type}."
        )
    return found


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yields the numbers and the values of the fields of a message."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if key & 7 == _VARINT:
            yield key >> 3, value
        elif key & 7 == _BYTES and at + value <= len(message):
            yield key >> 3, message[at : at + value]
            at += value
        else:
            raise ValueError(f"field {key}")


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while message[at] > 0x7F:
        value |= (message[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | message[at] << shift, at + 1


_tensor = tensor
