"""The messages that name the lists: a feature, features by name, an example."""

import dataclasses
from typing import Self

from typing_extensions import override

from mirrax.data.example.features import BYTES, FLOAT, INT64
from mirrax.data.example.lists import BytesList, FloatList, Int64List, Message
from mirrax.data.example.protobuf import delimited
from mirrax.data.example.spans import (
    Spans,
    read_example,
    read_feature,
    read_features,
    read_or_raise,
    values_of,
)


class Feature(Message):
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
        lists = {
            "bytes_list": bytes_list,
            "float_list": float_list,
            "int64_list": int64_list,
        }
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
        return f"Feature({name}={self._lists()[name]!r})" if name else "Feature()"

    def WhichOneof(self, oneof_group: str) -> str | None:  # noqa: N802
        """Returns the name of the list that has the values; None if there is none."""
        if oneof_group != "kind":
            raise ValueError(
                'The lists of a feature are its "kind". '
                f'Received: {oneof_group!r}. Use "kind".'
            )
        filled = [name for name, values in self._lists().items() if values.value]
        return filled[-1] if filled else self._given

    @override
    def SerializeToString(self) -> bytes:
        name = self.WhichOneof("kind")
        if name is None:
            return b""
        lists = self._lists()
        number = list(lists).index(name) + 1
        return delimited(number, lists[name].SerializeToString())

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        spans = read_or_raise(lambda: read_feature(data, 0, len(data)), data)
        return cls._from_spans(data, spans)

    @classmethod
    def _from_spans(cls, data: bytes, spans: Spans) -> Self:
        kind, values = values_of(data, spans)
        if kind == BYTES:
            return cls(bytes_list=BytesList(values.tolist()))
        if kind == FLOAT:
            return cls(float_list=FloatList(values.tolist()))
        if kind == INT64:
            return cls(int64_list=Int64List(values.tolist()))
        return cls()

    def _lists(self) -> dict[str, BytesList | FloatList | Int64List]:
        return {
            "bytes_list": self.bytes_list,
            "float_list": self.float_list,
            "int64_list": self.int64_list,
        }


@dataclasses.dataclass
class Features(Message):
    """Features by name."""

    feature: dict[str, Feature] = dataclasses.field(default_factory=dict)

    @override
    def SerializeToString(self) -> bytes:
        return b"".join(
            delimited(
                1,
                delimited(1, name.encode())
                + delimited(2, self.feature[name].SerializeToString()),
            )
            for name in sorted(self.feature)
        )

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        found: dict[str, Spans] = {}
        read_or_raise(lambda: read_features(data, 0, len(data), found), data)
        return cls({n: Feature._from_spans(data, s) for n, s in found.items()})


@dataclasses.dataclass
class Example(Message):
    """What a TFRecord file usually has for each example: its features.

    >>> value = mirrax.data.Example().SerializeToString()
    >>> mirrax.data.Example.FromString(value) == mirrax.data.Example()
    True
    """

    features: Features = dataclasses.field(default_factory=Features)

    @override
    def SerializeToString(self) -> bytes:
        return delimited(1, self.features.SerializeToString())

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        """Returns the example in a record."""
        found = read_or_raise(lambda: read_example(data), data)
        return cls(
            Features({n: Feature._from_spans(data, s) for n, s in found.items()})
        )
