"""The messages of examples: lists of values, features by name, an example."""

import dataclasses
import operator
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from mirrax.data.example.protobuf import delimited, packed, varint
from mirrax.data.example.spans import Spans, read_example, values_of


@dataclasses.dataclass
class BytesList:
    """A list of byte strings."""

    value: list[bytes] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = [_check_bytes(value) for value in _check_list(self.value)]

    def SerializeToString(self) -> bytes:  # noqa: N802
        return b"".join(delimited(1, _check_bytes(value)) for value in self.value)


@dataclasses.dataclass
class FloatList:
    """A list of numbers, rounded to float32."""

    value: list[float] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = _as_floats(_check_list(self.value)).tolist()

    def SerializeToString(self) -> bytes:  # noqa: N802
        return packed(_as_floats(self.value).tobytes())


@dataclasses.dataclass
class Int64List:
    """A list of integers of 64 bits."""

    value: list[int] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = [_check_int64(value) for value in _check_list(self.value)]

    def SerializeToString(self) -> bytes:  # noqa: N802
        # Negative numbers are written as the 64 bits that they are.
        return packed(
            b"".join(varint(_check_int64(v) & 0xFFFFFFFFFFFFFFFF) for v in self.value)
        )


# In the order of their numbers.
_LISTS = {"bytes_list": BytesList, "float_list": FloatList, "int64_list": Int64List}


class Feature:
    """One list of values, of one kind.

    Args:
        bytes_list, float_list, int64_list: The values; at most one of these.
    """

    def __init__(
        self,
        bytes_list: BytesList | None = None,
        float_list: FloatList | None = None,
        int64_list: Int64List | None = None,
    ) -> None:
        lists = dict(zip(_LISTS, (bytes_list, float_list, int64_list), strict=True))
        given = [name for name, values in lists.items() if values is not None]
        if len(given) > 1:
            raise ValueError(
                "A feature must have values of one kind. "
                f"Received: {', '.join(given)}. Make a feature of each."
            )
        self._given = given[0] if given else None
        self.bytes_list = bytes_list or BytesList()
        self.float_list = float_list or FloatList()
        self.int64_list = int64_list or Int64List()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Feature):
            return NotImplemented
        return self.SerializeToString() == other.SerializeToString()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        name = self.WhichOneof("kind")
        return f"Feature({name}={getattr(self, name)!r})" if name else "Feature()"

    def WhichOneof(self, oneof_group: str) -> str | None:  # noqa: N802
        """Returns the name of the list that has the values; None if there is none.

        The lists are the only group, "kind".
        """
        filled = [name for name in _LISTS if getattr(self, name).value]
        return filled[-1] if filled else self._given

    def SerializeToString(self) -> bytes:  # noqa: N802
        name = self.WhichOneof("kind")
        if name is None:
            return b""
        number = list(_LISTS).index(name) + 1
        return delimited(number, getattr(self, name).SerializeToString())


@dataclasses.dataclass
class Features:
    """Features by name."""

    feature: dict[str, Feature] = dataclasses.field(default_factory=dict)

    def SerializeToString(self) -> bytes:  # noqa: N802
        return b"".join(
            delimited(
                1,
                delimited(1, name.encode())
                + delimited(2, self.feature[name].SerializeToString()),
            )
            for name in sorted(self.feature)
        )


@dataclasses.dataclass
class Example:
    """What a TFRecord file usually has for each example: its features.

    >>> value = mirrax.data.Example().SerializeToString()
    >>> mirrax.data.Example.FromString(value) == mirrax.data.Example()
    True
    """

    features: Features = dataclasses.field(default_factory=Features)

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Returns the example as bytes."""
        return delimited(1, self.features.SerializeToString())

    @classmethod
    def FromString(cls, data: bytes) -> Self:  # noqa: N802
        """Returns the example in a record; raises `DataLossError` for other bytes."""
        found = read_example(data, f"{len(data)} bytes")
        return cls(Features({n: _feature_of(data, s) for n, s in found.items()}))

    def ParseFromString(self, serialized: bytes) -> int:  # noqa: N802
        """Becomes the example that bytes hold; returns how many they are."""
        data = bytes(serialized)
        self.features = self.FromString(data).features
        return len(data)


def _feature_of(data: bytes, spans: Spans) -> Feature:
    kind, values = values_of(data, spans)
    if not kind:
        return Feature()
    name = list(_LISTS)[kind - 1]
    lists: dict[str, Any] = {name: _LISTS[name](values.tolist())}
    return Feature(**lists)


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


def _as_floats(values: list[Any]) -> np.ndarray[Any, Any]:
    for value in values:
        if isinstance(value, str | bytes):
            raise TypeError(
                "A value of a `FloatList` must be a number. "
                f"Received: {value!r} of type {type(value).__name__}. "
                "Convert with `float()`, or use a `BytesList`."
            )
    with np.errstate(over="ignore"):  # too large is infinite, as in Protobuf
        return np.array(values, np.float64).astype("<f4").reshape(len(values))
