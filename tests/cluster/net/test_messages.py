import struct

import pytest

from mirrax.cluster.net.messages import Decoder, Message, ProtocolError, encode

MESSAGES = [Message("a", {"x": 1}, b"123"), Message("b"), Message("c", {"y": [None]})]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_messages_survive_any_division(size):
    data = b"".join(map(encode, MESSAGES))
    decoder = Decoder()
    received = [
        message
        for start in range(0, len(data), size)
        for message in decoder.feed(data[start : start + size])
    ]
    assert received == MESSAGES
    assert decoder.rest == b""


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x80\x04\x95 a pickle of something",
        struct.pack("!II", 3, 0) + b"{{{",
        struct.pack("!II", 2, 0) + b"[]",
        struct.pack("!II", 2, 0) + b"{}",
        struct.pack("!II", 10, 0) + b'{"kind":1}',
        struct.pack("!II", 200_000, 0) + b"[" * 200_000,
        struct.pack("!II", 2, 0) + b"\xff\xfe",
    ],
    ids=["http", "pickle", "json", "list", "no_kind", "kind", "deep", "bytes"],
)
def test_garbage_is_an_error(data):
    with pytest.raises(ProtocolError):
        list(Decoder().feed(data))


def test_missing_field_is_an_error():
    with pytest.raises(ProtocolError, match="'a' message has no 'z'"):
        MESSAGES[0]["z"]
