"""The messages that hold values: a list for each kind."""

import abc
import dataclasses
import operator
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from typing_extensions import override

from mirrax.data.example.features import BYTES, FLOAT, INT64, Array
from mirrax.data.example.protobuf import delimited, packed, varint
from mirrax.data.example.spans import read_list


class Message(abc.ABC):
    """What can be written in Protobuf's format and read from it."""

    @abc.abstractmethod
    def SerializeToString(self) -> bytes:  # noqa: N802
        """Returns the message as bytes."""

    @classmethod
    @abc.abstractmethod
    def FromString(cls, data: bytes) -> Self:  # noqa: N802
        """Returns the message that bytes hold.

        Raises:
            DataLossError: Bytes that are no such message.
        """

    def ParseFromString(self, serialized: bytes) -> int:  # noqa: N802
        """Becomes the message that bytes hold; returns how many they are."""
        data = bytes(serialized)
        vars(self).update(vars(self.FromString(data)))
        return len(data)


@dataclasses.dataclass
class BytesList(Message):
    """A list of byte strings."""

    value: list[bytes] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = [_check_bytes(value) for value in _check_list(self.value)]

    @override
    def SerializeToString(self) -> bytes:
        return b"".join(delimited(1, _check_bytes(value)) for value in self.value)

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        return cls(read_list(data, BYTES))


@dataclasses.dataclass
class FloatList(Message):
    """A list of numbers, rounded to float32."""

    value: list[float] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = _as_floats(_check_list(self.value)).tolist()

    @override
    def SerializeToString(self) -> bytes:
        return packed(_as_floats(self.value).tobytes())

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        return cls(read_list(data, FLOAT))


@dataclasses.dataclass
class Int64List(Message):
    """A list of integers of 64 bits."""

    value: list[int] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = [_check_int64(value) for value in _check_list(self.value)]

    @override
    def SerializeToString(self) -> bytes:
        # Negative numbers are written as the 64 bits that they are.
        return packed(
            b"".join(varint(_check_int64(v) & 0xFFFFFFFFFFFFFFFF) for v in self.value)
        )

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        return cls(read_list(data, INT64))


def _check_list(value: Any) -> list[Any]:
    if isinstance(value, bytes | str) or not isinstance(value, Iterable):
        raise TypeError(
            "The value of a list must be a sequence. "
            f"Received: value={value!r}. Use value=[{value!r}]."
        )
    return list(value)


def _check_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(
            "A value of a `BytesList` must be bytes. "
            f"Received: {value!r} of type {type(value).__name__}. "
            "Encode text with `.encode()`, arrays with `.tobytes()`."
        )
    return bytes(value)


def _check_int64(value: Any) -> int:
    try:
        number: int = operator.index(value)
    except TypeError:
        raise TypeError(
            "A value of an `Int64List` must be an integer. "
            f"Received: {value!r} of type {type(value).__name__}. "
            "Convert with `int()`, or use a `FloatList`."
        ) from None
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(
            "A value of an `Int64List` must fit in 64 bits. "
            f"Received: {number}. Value out of range: use a `BytesList`."
        )
    return number


def _as_floats(values: list[Any]) -> Array:
    for value in values:
        if isinstance(value, str | bytes):
            raise TypeError(
                "A value of a `FloatList` must be a number. "
                f"Received: {value!r} of type {type(value).__name__}. "
                "Convert with `float()`, or use a `BytesList`."
            )
    with np.errstate(over="ignore"):  # too large is infinite, as in Protobuf
        return np.array(values, np.float64).astype("<f4").reshape(len(values))
