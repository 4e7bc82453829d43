"""The records of an event file, in Protobuf's format.

Event   { double wall_time = 1; int64 step = 2; string file_version = 3;
          Summary summary = 5; }
Summary { repeated Value value = 1; }
Value   { string tag = 1; float simple_value = 2; }
"""

from __future__ import annotations

import struct

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def version_event(wall_time: float) -> bytes:
    """Returns the first record of a file."""
    return _double(1, wall_time) + _delimited(3, b"brain.Event:2")


def scalar_event(wall_time: float, step: int, tag: str, value: float) -> bytes:
    """Returns the record of one number at one step."""
    item = _delimited(1, tag.encode()) + _tag(2, _FIXED32) + struct.pack("<f", value)
    summary = _delimited(1, item)
    return (
        _double(1, wall_time)
        + _tag(2, _VARINT)
        + _varint(step)
        + _delimited(5, summary)
    )


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _double(number: int, value: float) -> bytes:
    return _tag(number, _FIXED64) + struct.pack("<d", value)


def _delimited(number: int, content: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
