"""Messages between the processes of a job: JSON plus raw bytes, never pickles.

On the wire a message is two lengths (4 bytes each, big-endian), then an object in JSON,
then the payload.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterator
from typing import Any

_LENGTHS = struct.Struct("!II")
# Limits before and after a connection is authenticated.
MAX_HANDSHAKE_BYTES = 1 << 18
MAX_MESSAGE_BYTES = 1 << 30
# It is shown in errors.
_MAX_KIND = 40


class ProtocolError(ValueError):
    """Received bytes that are not a valid message."""


@dataclasses.dataclass(frozen=True)
class Message:
    """One message: its kind, fields, and an opaque payload."""

    kind: str
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)
    payload: bytes = b""

    def __getitem__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            raise ProtocolError(f"A {self.kind!r} message has no {name!r}.") from None


def encode(message: Message) -> bytes:
    """Returns the bytes of a message."""
    text = json.dumps({**message.fields, "kind": message.kind}).encode()
    return b"".join(
        (_LENGTHS.pack(len(text), len(message.payload)), text, message.payload)
    )


class Decoder:
    """Decodes messages incrementally from received bytes.

    >>> decoder = Decoder()
    >>> [message.kind for message in decoder.feed(encode(Message("leave")))]
    ['leave']
    """

    def __init__(self, limit: int = MAX_HANDSHAKE_BYTES) -> None:
        self.limit = limit
        self._buffer = bytearray()

    @property
    def rest(self) -> bytes:
        """The bytes of the incomplete last message."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yields the messages that `data` completes; raises ProtocolError."""
        self._buffer += data
        while len(self._buffer) >= _LENGTHS.size:
            text_size, payload_size = _LENGTHS.unpack_from(self._buffer)
            if text_size + payload_size > self.limit:
                raise ProtocolError(f"A message of {text_size + payload_size} bytes.")
            start = _LENGTHS.size + text_size
            if len(self._buffer) < start + payload_size:
                return
            text = bytes(self._buffer[_LENGTHS.size : start])
            payload = bytes(self._buffer[start : start + payload_size])
            del self._buffer[: start + payload_size]
            yield _parse(text, payload)


def _parse(text: bytes, payload: bytes) -> Message:
    try:
        fields = json.loads(text.decode())
        kind = fields.pop("kind")
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise ProtocolError("A message is an object in JSON with a kind.") from error
    if not isinstance(kind, str) or len(kind) > _MAX_KIND:
        raise ProtocolError("The kind of a message is a short string.")
    return Message(kind, fields, payload)
