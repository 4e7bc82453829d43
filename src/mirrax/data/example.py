"""`tf.train.Example`: named lists of bytes, floats or integers, in Protobuf's format.

    Example   { Features features = 1; }
    Features  { map<string, Feature> feature = 1; }   // entries { key = 1; value = 2; }
    Feature   { BytesList = 1, FloatList = 2 or Int64List = 3 }
    *List     { repeated value = 1; }                 // numbers are packed, or not

Nothing here needs the protobuf package.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from typing_extensions import override

from mirrax.errors import DataLossError

Array = np.ndarray[Any, Any]
_T = TypeVar("_T")

# The fields of Feature, which are the kinds of values.
_BYTES, _FLOAT, _INT64 = 1, 2, 3
_DTYPES = {
    _BYTES: np.dtype(object),
    _FLOAT: np.dtype(np.float32),
    _INT64: np.dtype(np.int64),
}
_KIND_NAMES = {_BYTES: "bytes", _FLOAT: "float32", _INT64: "int64"}
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
# Fewer records are read one by one as fast as all at once.
_MIN_RECORDS_AT_ONCE = 4


@dataclasses.dataclass(frozen=True)
class FixedLenFeature:
    """A feature with the same number of values in every example.

    Args:
        shape: The shape of the values of one example; () for a single value.
        dtype: float32, int64, or bytes for strings.
        default_value: What an example without the feature has; None makes it an error.
    """

    shape: Sequence[int]
    dtype: Any
    default_value: Any = None

    def __post_init__(self) -> None:
        _kind_of(self.dtype)
        if None in self.shape or any(size < 0 for size in self.shape):
            raise ValueError(
                "The shape of a `FixedLenFeature` must be known. "
                f"Received: shape={self.shape!r}. Use a `VarLenFeature`."
            )


@dataclasses.dataclass(frozen=True)
class VarLenFeature:
    """A feature with any number of values in each example.

    Args:
        dtype: float32, int64, or bytes for strings.
    """

    dtype: Any

    def __post_init__(self) -> None:
        _kind_of(self.dtype)


AnyFeature = FixedLenFeature | VarLenFeature


def parse_example(
    serialized: Sequence[bytes], features: Mapping[str, AnyFeature]
) -> dict[str, Any]:
    """Returns the features of a batch of serialized examples.

    A `FixedLenFeature` gives one array with a row for each example, a `VarLenFeature`
    a list with an array for each. Strings are arrays of bytes objects.

    >>> feature = {"x": Feature(int64_list=Int64List(value=[7]))}
    >>> record = Example(features=Features(feature=feature)).SerializeToString()
    >>> parse_example([record, record], {"x": FixedLenFeature((), np.int64)})
    {'x': array([7, 7])}

    Raises:
        ValueError: An example does not have the features.
        DataLossError: Bytes that are no example.
    """
    records = _check_serialized(serialized)
    columns = [_make_column(name, f, len(records)) for name, f in features.items()]
    for index in _parse_alike(records, columns):
        found = _spans_of(records[index], index)
        for column in columns:
            column.put_one(index, *_values_of(records[index], found.get(column.name)))
    return {column.name: column.result() for column in columns}


def parse_single_example(
    serialized: bytes, features: Mapping[str, AnyFeature]
) -> dict[str, Any]:
    """Returns the features of one serialized example, as `parse_example` does.

    >>> feature = {"x": Feature(bytes_list=BytesList(value=[b"a", b"b"]))}
    >>> record = Example(features=Features(feature=feature)).SerializeToString()
    >>> parse_single_example(record, {"x": VarLenFeature(bytes)})
    {'x': array([b'a', b'b'], dtype=object)}
    """
    parsed = parse_example([serialized], features)
    return {name: rows[0] for name, rows in parsed.items()}


class _Message(abc.ABC):
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


@dataclasses.dataclass
class BytesList(_Message):
    """A list of byte strings."""

    value: list[bytes] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = [_check_bytes(value) for value in _check_list(self.value)]

    @override
    def SerializeToString(self) -> bytes:
        return b"".join(_delimited(1, _check_bytes(value)) for value in self.value)

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        return cls(_read_list(data, _BYTES))


@dataclasses.dataclass
class FloatList(_Message):
    """A list of numbers, rounded to float32."""

    value: list[float] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = _as_floats(_check_list(self.value)).tolist()

    @override
    def SerializeToString(self) -> bytes:
        return _packed(_as_floats(self.value).tobytes())

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        return cls(_read_list(data, _FLOAT))


@dataclasses.dataclass
class Int64List(_Message):
    """A list of integers of 64 bits."""

    value: list[int] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = [_check_int64(value) for value in _check_list(self.value)]

    @override
    def SerializeToString(self) -> bytes:
        # Negative numbers are written as the 64 bits that they are.
        return _packed(
            b"".join(_varint(_check_int64(v) & 0xFFFFFFFFFFFFFFFF) for v in self.value)
        )

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        return cls(_read_list(data, _INT64))


class Feature(_Message):
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
        return _delimited(number, lists[name].SerializeToString())

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        spans = _guarded(lambda: _read_feature(data, 0, len(data)), data)
        return cls._from_spans(data, spans)

    @classmethod
    def _from_spans(cls, data: bytes, spans: _Spans) -> Self:
        kind, values = _values_of(data, spans)
        if kind == _BYTES:
            return cls(bytes_list=BytesList(values.tolist()))
        if kind == _FLOAT:
            return cls(float_list=FloatList(values.tolist()))
        if kind == _INT64:
            return cls(int64_list=Int64List(values.tolist()))
        return cls()

    def _lists(self) -> dict[str, BytesList | FloatList | Int64List]:
        return {
            "bytes_list": self.bytes_list,
            "float_list": self.float_list,
            "int64_list": self.int64_list,
        }


@dataclasses.dataclass
class Features(_Message):
    """Features by name."""

    feature: dict[str, Feature] = dataclasses.field(default_factory=dict)

    @override
    def SerializeToString(self) -> bytes:
        return b"".join(
            _delimited(
                1,
                _delimited(1, name.encode())
                + _delimited(2, self.feature[name].SerializeToString()),
            )
            for name in sorted(self.feature)
        )

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        found: dict[str, _Spans] = {}
        _guarded(lambda: _read_features(data, 0, len(data), found), data)
        return cls({n: Feature._from_spans(data, s) for n, s in found.items()})


@dataclasses.dataclass
class Example(_Message):
    """What a TFRecord file usually has for each example: its features."""

    features: Features = dataclasses.field(default_factory=Features)

    @override
    def SerializeToString(self) -> bytes:
        return _delimited(1, self.features.SerializeToString())

    @classmethod
    @override
    def FromString(cls, data: bytes) -> Self:
        found = _guarded(lambda: _read_example(data), data)
        return cls(
            Features({n: Feature._from_spans(data, s) for n, s in found.items()})
        )


# Writing.


def _varint(number: int) -> bytes:
    """Returns 7 bits in each byte, the lowest first; the last byte is below 128."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _delimited(field_number: int, data: bytes) -> bytes:
    return _varint(field_number << 3 | _DELIMITED) + _varint(len(data)) + data


def _packed(data: bytes) -> bytes:
    return _delimited(1, data) if data else b""


# Reading: first where the values are, then the values.


class _MalformedError(Exception):
    """Bytes that are no message."""


@dataclasses.dataclass
class _Spans:
    """Where the values of a feature are.

    Args:
        kind: The kind of values; 0 if there are none.
        places: Start and stop of a string, of packed numbers or of one number.
        are_free: Whether other bytes there would mean other values and no more. Those
            of a varint on its own also say where the next field starts.
    """

    kind: int = 0
    places: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    are_free: bool = True


def _spans_of(record: bytes, index: int) -> dict[str, _Spans]:
    try:
        return _read_usual_example(record) or _read_example(record)
    except _MalformedError as error:
        raise _not_a_message(f"example {index} of {len(record)} bytes", error) from None


def _guarded(read: Callable[[], _T], data: bytes) -> _T:
    try:
        return read()
    except _MalformedError as error:
        raise _not_a_message(f"{len(data)} bytes", error) from None


def _not_a_message(received: str, error: _MalformedError) -> DataLossError:
    return DataLossError(
        "Could not parse example input: it must be a serialized `tf.train.Example`. "
        f"Received: {received}: {error}. "
        "Use what `SerializeToString()` returned, or parse with another function."
    )


def _read_example(data: bytes) -> dict[str, _Spans]:
    found: dict[str, _Spans] = {}
    for number, wire_type, start, stop in _fields(data, 0, len(data)):
        if number == 1 and wire_type == _DELIMITED:
            _read_features(data, start, stop, found)
    return found


def _read_usual_example(data: bytes) -> dict[str, _Spans] | None:
    """Returns what `_read_example` does, faster; None for an unusual example.

    Usual is how everybody writes them: each field once and in order, numbers packed.
    """
    found: dict[str, _Spans] = {}
    size = len(data)
    try:
        start, stop = _enter(data, 0, 0x0A)
        if stop != size:
            return None
        while start < size:
            start, entry_stop = _enter(data, start, 0x0A)
            start, stop = _enter(data, start, 0x0A)
            name = data[start:stop].decode()
            start, stop = _enter(data, stop, 0x12)
            if stop != entry_stop or stop > size:
                return None
            found[name] = _read_usual_feature(data, start, stop)
            start = stop
    except (IndexError, UnicodeDecodeError, _MalformedError):
        return None
    return found


def _read_usual_feature(data: bytes, start: int, stop: int) -> _Spans:
    if start == stop:
        return _Spans()
    kind = data[start] >> 3
    start, list_stop = _enter(data, start, kind << 3 | _DELIMITED)
    if kind not in _DTYPES or list_stop != stop:
        raise _MalformedError
    spans = _Spans(kind)
    while start < stop:
        start, end = _enter(data, start, 0x0A)
        spans.places.append((start, end))
        start = end
    if start != stop or (kind != _BYTES and len(spans.places) > 1):
        raise _MalformedError
    if kind == _FLOAT and spans.places and (end - spans.places[0][0]) % 4:
        raise _MalformedError
    if kind == _INT64 and spans.places:
        _check_varints(data[slice(*spans.places[0])], 0)
    return spans


def _enter(data: bytes, position: int, tag: int) -> tuple[int, int]:
    """Returns start and stop of the field at a position, if it has the tag."""
    if data[position] != tag:
        raise _MalformedError
    size = data[position + 1]
    if size < 0x80:
        start = position + 2
    else:
        size, start = _read_varint(data, position + 1, len(data))
    return start, start + size


def _read_features(
    data: bytes, start: int, stop: int, found: dict[str, _Spans]
) -> None:
    for number, wire_type, begin, end in _fields(data, start, stop):
        if number == 1 and wire_type == _DELIMITED:
            name, spans = _read_entry(data, begin, end)
            found[name] = spans  # as in any Protobuf map, the last of a name counts


def _read_entry(data: bytes, start: int, stop: int) -> tuple[str, _Spans]:
    name, spans = "", _Spans()
    for number, wire_type, begin, end in _fields(data, start, stop):
        if number == 1 and wire_type == _DELIMITED:
            name = _read_name(data, begin, end)
        elif number == 2 and wire_type == _DELIMITED:
            spans = _read_feature(data, begin, end, spans)
    return name, spans


def _read_name(data: bytes, start: int, stop: int) -> str:
    try:
        return data[start:stop].decode()
    except UnicodeDecodeError:
        raise _MalformedError(f"the name at {start} is not UTF-8") from None


def _read_feature(
    data: bytes, start: int, stop: int, spans: _Spans | None = None
) -> _Spans:
    spans = spans or _Spans()
    for kind, wire_type, begin, end in _fields(data, start, stop):
        if kind in _DTYPES and wire_type == _DELIMITED:
            if kind != spans.kind:
                spans = _Spans(kind)
            _read_places(data, begin, end, spans)
    return spans


def _read_places(data: bytes, start: int, stop: int, spans: _Spans) -> None:
    single = {_BYTES: _DELIMITED, _FLOAT: _FIXED32, _INT64: _VARINT}[spans.kind]
    for number, wire_type, begin, end in _fields(data, start, stop):
        if number != 1 or wire_type not in (single, _DELIMITED):
            continue
        if spans.kind == _FLOAT and (end - begin) % 4:
            raise _MalformedError(f"{end - begin} bytes at {begin} are no floats")
        if spans.kind == _INT64:
            _check_varints(data[begin:end], begin)
        spans.places.append((begin, end))
        spans.are_free &= wire_type != _VARINT


def _fields(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields the number, the wire type, and where the value starts and stops."""
    position = start
    while position < stop:
        tag, begin = _read_varint(data, position, stop)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise _MalformedError(f"a field with the number {number} at {position}")
        if wire_type == _DELIMITED:
            size, begin = _read_varint(data, begin, stop)
            end = begin + size
        elif wire_type == _VARINT:
            _, end = _read_varint(data, begin, stop)
        elif wire_type == _FIXED32:
            end = begin + 4
        elif wire_type == _FIXED64:
            end = begin + 8
        else:
            raise _MalformedError(f"a field of the wire type {wire_type} at {position}")
        if end > stop:
            raise _MalformedError(
                f"a field at {position} goes on to {end}, beyond {stop}"
            )
        yield number, wire_type, begin, end
        position = end


def _read_varint(data: bytes, start: int, stop: int) -> tuple[int, int]:
    number = shift = 0
    for position in range(start, min(start + 10, stop)):
        byte = data[position]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position + 1
        shift += 7
    raise _MalformedError(f"an integer without an end at {start}")


def _values_of(data: bytes, spans: _Spans | None) -> tuple[int, Array]:
    """Returns the kind of values, 0 for none, and the values."""
    if spans is None or not spans.kind:
        return 0, np.empty(0)
    if spans.kind == _BYTES:
        return _BYTES, _as_objects([data[a:b] for a, b in spans.places])
    joined = b"".join([data[start:stop] for start, stop in spans.places])
    return spans.kind, _decode_numbers(joined, spans.kind)


def _read_list(data: bytes, kind: int) -> list[Any]:
    spans = _Spans(kind)
    _guarded(lambda: _read_places(data, 0, len(data), spans), data)
    values: list[Any] = _values_of(data, spans)[1].tolist()
    return values


def _decode_numbers(data: bytes, kind: int) -> Array:
    if kind == _FLOAT:
        return np.frombuffer(data, "<f4").astype(np.float32)
    if data.isascii():  # each number is one byte
        return np.frombuffer(data, np.uint8).astype(np.int64)
    return _decode_varints(np.frombuffer(data, np.uint8))


def _decode_varints(data: Array) -> Array:
    starts = np.flatnonzero(np.concatenate([[True], data[:-1] < 0x80]))
    sizes = np.diff(starts, append=len(data))
    places = np.arange(len(data)) - np.repeat(starts, sizes)
    bits = (data & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(bits, starts).view(np.int64)


def _check_varints(data: bytes, offset: int) -> None:
    if data.isascii():
        return
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) < 0x80) + 1
    if not len(ends) or ends[-1] != len(data):
        raise _MalformedError(f"an integer without an end before {offset + len(data)}")
    if np.diff(ends, prepend=0).max() > 10:
        raise _MalformedError(f"an integer of more than 10 bytes after {offset}")


# Many examples at once: those of one length mostly differ in their values only, so
# that a value is at the same place in all of them.


def _parse_alike(records: list[bytes], columns: Sequence[_Column]) -> list[int]:
    """Fills in examples that have one layout; returns the indices of the others."""
    groups: dict[int, list[int]] = {}
    for index, record in enumerate(records):
        groups.setdefault(len(record), []).append(index)
    others: list[int] = []
    for group in groups.values():
        if len(group) < _MIN_RECORDS_AT_ONCE:
            others += group
            continue
        indices = np.array(group)
        others += indices[~_parse_group(records, indices, columns)].tolist()
    return sorted(others)


def _parse_group(
    records: list[bytes], indices: Array, columns: Sequence[_Column]
) -> Array:
    """Fills in the examples like the first one; returns which these are."""
    nothing = np.zeros(len(indices), bool)
    first = records[indices[0]]
    found = _spans_of(first, indices[0])
    group = [records[index] for index in indices.tolist()]
    table = np.frombuffer(b"".join(group), np.uint8).reshape(len(group), len(first))
    frame = _frame_of(len(first), found.values())
    is_alike: Array = (table[:, frame] == table[0, frame]).all(1)
    if not is_alike.all():
        indices = indices[is_alike]
        group = [records[index] for index in indices.tolist()]
        table = table[is_alike]
    blocks = []
    for column in columns:
        spans = found.get(column.name)
        block = None if spans is None else _block_of(group, table, spans)
        if (
            spans is None
            or block is None
            or not column.fits(spans.kind, block.shape[1])
        ):
            return nothing
        blocks.append(block)
    for column, block in zip(columns, blocks, strict=True):
        column.put_many(indices, block)
    return is_alike


def _frame_of(size: int, features: Iterable[_Spans]) -> Array:
    """Returns where the bytes are that all examples of one layout share."""
    is_frame = np.ones(size, bool)
    for spans in features:
        for start, stop in spans.places if spans.are_free else ():
            is_frame[start:stop] = False
    return np.flatnonzero(is_frame)


def _block_of(group: list[bytes], table: Array, spans: _Spans) -> Array | None:
    """Returns a row of values for each example; None if their numbers differ."""
    if spans.kind == _BYTES:
        block = np.empty((len(group), len(spans.places)), object)
        for i, (start, stop) in enumerate(spans.places):
            block[:, i] = [record[start:stop] for record in group]
        return block
    if not spans.kind or not spans.places:
        return None
    parts = [_numbers_at(table[:, a:b], spans.kind) for a, b in spans.places]
    known = [part for part in parts if part is not None]
    return np.concatenate(known, axis=1) if len(known) == len(parts) else None


def _numbers_at(table: Array, kind: int) -> Array | None:
    data = table.tobytes()
    if kind == _INT64 and not data.isascii():
        counts = (table < 0x80).sum(1)
        if (counts != counts[0]).any() or (table[:, -1] >= 0x80).any():
            return None
        try:
            _check_varints(data, 0)
        except _MalformedError:
            return None
    return _decode_numbers(data, kind).reshape(len(table), -1)


class _Column(abc.ABC):
    """One feature of all examples."""

    def __init__(self, name: str, feature: AnyFeature) -> None:
        self.name = name
        self._kind = _kind_of(feature.dtype)

    def put_one(self, index: int, kind: int, values: Array) -> None:
        """Takes the values of one example; those of kind 0 are missing."""
        if not kind:
            self._put_missing(index)
            return
        if kind != self._kind:
            raise ValueError(
                f"{_at(self.name, index)}: Data types don't match. Expected type: "
                f"{_KIND_NAMES[self._kind]}. Received: {_KIND_NAMES[kind]}. "
                "Use the dtype that the examples were written with."
            )
        self._put(index, values)

    @abc.abstractmethod
    def fits(self, kind: int, num_values: int) -> bool:
        """Returns whether values can be taken as they are."""

    @abc.abstractmethod
    def put_many(self, indices: Array, block: Array) -> None:
        """Takes the values of many examples, a row for each."""

    @abc.abstractmethod
    def result(self) -> Any:
        """Returns what the user gets."""

    @abc.abstractmethod
    def _put(self, index: int, values: Array) -> None: ...

    @abc.abstractmethod
    def _put_missing(self, index: int) -> None: ...


class _FixedLenColumn(_Column):
    def __init__(self, name: str, feature: FixedLenFeature, num_rows: int) -> None:
        super().__init__(name, feature)
        self._shape = tuple(feature.shape)
        self._num_values = math.prod(self._shape)
        self._rows = np.empty((num_rows, self._num_values), _DTYPES[self._kind])
        self._default = _default_of(name, feature)

    @override
    def fits(self, kind: int, num_values: int) -> bool:
        return kind == self._kind and num_values == self._num_values

    @override
    def put_many(self, indices: Array, block: Array) -> None:
        self._rows[indices] = block

    @override
    def result(self) -> Any:
        return self._rows.reshape(len(self._rows), *self._shape)

    @override
    def _put(self, index: int, values: Array) -> None:
        if len(values) != self._num_values:
            raise ValueError(
                f"{_at(self.name, index)}: Number of {_KIND_NAMES[self._kind]} values "
                f"!= expected. Received: {len(values)} values for the shape "
                f"{self._shape}, which has {self._num_values}. Correct the shape, or "
                "use a `VarLenFeature`."
            )
        self._rows[index] = values

    @override
    def _put_missing(self, index: int) -> None:
        if self._default is None:
            raise ValueError(
                f"{_at(self.name, index)}: Feature: {self.name} (data type: "
                f"{_KIND_NAMES[self._kind]}) is required but could not be found. "
                "Give the feature a `default_value`, or correct its name."
            )
        self._rows[index] = self._default


class _VarLenColumn(_Column):
    def __init__(self, name: str, feature: VarLenFeature, num_rows: int) -> None:
        super().__init__(name, feature)
        self._rows = [np.empty(0, _DTYPES[self._kind])] * num_rows

    @override
    def fits(self, kind: int, num_values: int) -> bool:
        return kind == self._kind

    @override
    def put_many(self, indices: Array, block: Array) -> None:
        for index, values in zip(indices.tolist(), block, strict=True):
            self._rows[index] = values

    @override
    def result(self) -> Any:
        return self._rows

    @override
    def _put(self, index: int, values: Array) -> None:
        self._rows[index] = values

    @override
    def _put_missing(self, index: int) -> None:
        self._rows[index] = np.empty(0, _DTYPES[self._kind])


def _make_column(name: str, feature: AnyFeature, num_rows: int) -> _Column:
    if isinstance(feature, FixedLenFeature):
        return _FixedLenColumn(name, feature, num_rows)
    if isinstance(feature, VarLenFeature):
        return _VarLenColumn(name, feature, num_rows)
    raise TypeError(
        "A feature must be a `FixedLenFeature` or a `VarLenFeature`. "
        f"Received: {feature!r} for {name!r}. Use one of these."
    )


def _default_of(name: str, feature: FixedLenFeature) -> Array | None:
    value = feature.default_value
    if value is None:
        return None
    if _kind_of(feature.dtype) == _BYTES:
        given = np.array(value, object)
        flat = [v.encode() if isinstance(v, str) else v for v in given.ravel()]
        given = _as_objects(flat).reshape(given.shape)
    else:
        given = np.asarray(value, _DTYPES[_kind_of(feature.dtype)])
    shape = tuple(feature.shape)
    if given.size != 1 and given.shape != shape:
        raise ValueError(
            "A default value must be a single one or have the shape of the feature. "
            f"Received: the shape {given.shape} for {name!r} with the shape {shape}. "
            "Reshape the default value."
        )
    return np.broadcast_to(given.ravel(), (math.prod(shape),))


def _at(name: str, index: int) -> str:
    return f"Feature {name!r} of example {index}"


# Checks of what users give.


def _kind_of(dtype: Any) -> int:
    kinds = {"f4": _FLOAT, "i8": _INT64, "S": _BYTES, "U": _BYTES, "O": _BYTES}
    try:
        given = np.dtype("S" if dtype == "string" else dtype)
    except TypeError:
        given = np.dtype(bool)
    kind = kinds.get(given.kind) or kinds.get(f"{given.kind}{given.itemsize}")
    if dtype is None or kind is None:
        raise ValueError(
            "The dtype of a feature must be float32, int64 or bytes: examples hold "
            f"nothing else. Received: {dtype!r}. Parse as one of these and convert."
        )
    return kind


def _check_serialized(serialized: Any) -> list[bytes]:
    if isinstance(serialized, bytes | str):
        raise TypeError(
            "A batch must be a sequence of serialized examples. Received: "
            f"{type(serialized).__name__}. Use `parse_single_example`."
        )
    records = list(serialized)
    for index, record in enumerate(records):
        if not isinstance(record, bytes):
            raise TypeError(
                "A serialized example must be bytes. Received: "
                f"{type(record).__name__} at index {index}. "
                "Use what `SerializeToString()` returned."
            )
    return records


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


def _as_objects(values: list[bytes]) -> Array:
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects
