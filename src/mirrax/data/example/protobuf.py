"""Protobuf's wire format: numbered fields of varints, of bytes or of fixed sizes."""

import numpy as np

from mirrax.data.example.features import FLOAT, Array

# The wire types.
VARINT, _FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5


class MalformedError(Exception):
    """Bytes that are no message."""


def varint(number: int) -> bytes:
    """Returns 7 bits in each byte, the lowest first; the last byte is below 128."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def delimited(field_number: int, data: bytes) -> bytes:
    """Returns a field of bytes, which starts with its number and its size."""
    return varint(field_number << 3 | DELIMITED) + varint(len(data)) + data


def packed(data: bytes) -> bytes:
    """Returns the field of all numbers of a list; nothing if there are none."""
    return delimited(1, data) if data else b""


def fields(data: bytes, start: int, stop: int) -> list[tuple[int, int, int, int]]:
    """Returns the number, the wire type, and where the value starts and stops."""
    found = []
    position = start
    while position < stop:
        # Most tags and sizes have one byte.
        tag, begin = data[position], position + 1
        if tag >= 0x80:
            tag, begin = read_varint(data, position, stop)
        number, wire_type = tag >> 3, tag & 7
        if not number or number >= 1 << 29:
            raise MalformedError(f"a field with the number {number} at {position}")
        if wire_type == DELIMITED:
            if begin < stop and data[begin] < 0x80:
                end = begin + 1 + data[begin]
                begin += 1
            else:
                size, begin = read_varint(data, begin, stop)
                end = begin + size
        elif wire_type == VARINT:
            _, end = read_varint(data, begin, stop)
        elif wire_type == FIXED32:
            end = begin + 4
        elif wire_type == _FIXED64:
            end = begin + 8
        else:
            raise MalformedError(f"a field of the wire type {wire_type} at {position}")
        if end > stop:
            raise MalformedError(
                f"a field at {position} goes on to {end}, beyond {stop}"
            )
        found.append((number, wire_type, begin, end))
        position = end
    return found


def read_varint(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Returns a number, and where it stops."""
    number = shift = 0
    for position in range(start, min(start + 10, stop)):
        byte = data[position]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position + 1
        shift += 7
    raise MalformedError(f"an integer without an end at {start}")


def decode_numbers(data: bytes, kind: int) -> Array:
    """Returns the numbers that are packed in bytes."""
    if kind == FLOAT:
        return np.frombuffer(data, "<f4").astype(np.float32)
    if data.isascii():  # each number is one byte
        return np.frombuffer(data, np.uint8).astype(np.int64)
    return _decode_varints(np.frombuffer(data, np.uint8))


def check_varints(data: bytes, offset: int) -> None:
    """Raises an error unless bytes are varints, the last one complete."""
    if data.isascii():
        return
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) < 0x80) + 1
    if not len(ends) or ends[-1] != len(data):
        raise MalformedError(f"an integer without an end before {offset + len(data)}")
    if np.diff(ends, prepend=0).max() > 10:
        raise MalformedError(f"an integer of more than 10 bytes after {offset}")


def _decode_varints(data: Array) -> Array:
    starts = np.flatnonzero(np.concatenate([[True], data[:-1] < 0x80]))
    sizes = np.diff(starts, append=len(data))
    places = np.arange(len(data)) - np.repeat(starts, sizes)
    bits = (data & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(bits, starts).view(np.int64)
