"""Random damage to what comes from outside: only documented errors, bounded memory.

Seeded, so that a failure can be repeated.
"""

import json
import random
import string

import pytest

from mirrax.cluster.net import handshake
from mirrax.cluster.net.messages import Decoder, Message, ProtocolError, encode
from mirrax.cluster.resolvers import tf_config
from mirrax.devices import device_names

ROUNDS = 1500
# At and around what Python's JSON reader, and then other code, can still recurse into.
DEPTHS = (10, 500, *range(880, 1010, 3), 50_000)
TEXTS = ("", "x", "\x1b[2J", "\ud800", "0", "worker", "chief", "a:1", "٣", "9" * 5000)
KEYS = (
    "cluster",
    "task",
    "type",
    "index",
    "worker",
    "chief",
    "ps",
    "kind",
    "rpc_layer",
)
KEY = handshake.derive_key("a:1", "", "secret")


def any_value(generator, depth=3):
    """A random value as JSON has them."""
    kind = generator.randrange(9 if depth else 7)
    if kind < 3:
        return generator.choice(TEXTS)
    if kind < 6:
        return generator.choice([0, 1, -1, 2**63, 1e308, -0.5, float("inf")])
    if kind == 6:
        return generator.choice([None, True, False, {}, []])
    size = generator.randrange(4)
    values = [any_value(generator, depth - 1) for _ in range(size)]
    return values if kind == 7 else dict(zip(generator.sample(KEYS, size), values))


def damage(generator, data):
    """A copy with some bytes changed, removed or repeated."""
    data = bytearray(data)
    for _ in range(generator.randrange(4)):
        start = generator.randrange(len(data) + 1)
        stop = start + generator.randrange(8)
        data[start:stop] = generator.choice(
            [b"", generator.randbytes(3), data[start:stop] * 2, b"[" * 300]
        )
    return bytes(data)


def parse_tf_config(text):
    tf_config.parse.cache_clear()
    return tf_config.parse(text)


def test_tf_config_gives_a_value_error_that_names_it():
    generator = random.Random(0)
    good = {
        "cluster": {"worker": ["a:1", "b:1"]},
        "task": {"type": "worker", "index": 0},
    }
    texts = [
        json.dumps({**good, **dict.fromkeys(generator.sample(KEYS, 1), value)})
        for value in (any_value(generator) for _ in range(ROUNDS))
    ]
    whole = json.dumps(good).encode()
    texts.append(json.dumps({**good, "task": {"type": "worker", "index": "9" * 5000}}))
    texts += [damage(generator, whole).decode("latin-1") for _ in range(ROUNDS)]
    texts += [
        f'{{"cluster": {"[" * depth}{"]" * depth}, "task": {good["task"]}}}'.replace(
            "'", '"'
        )
        for depth in DEPTHS
    ]
    for text in texts:
        message = "TF_CONFIG"
        try:
            parse_tf_config(text)
        except ValueError as error:
            message = str(error)
        assert message.startswith("TF_CONFIG"), text[:200]
        assert len(message) < 2000


def test_tf_config_with_many_names_is_read_in_one_pass():
    text = json.dumps({f"n{index}": 0 for index in range(50_000)})
    with pytest.raises(ValueError, match="`cluster` is given"):
        parse_tf_config(text)


def test_device_names_give_a_value_error_or_survive_a_round_trip():
    generator = random.Random(1)
    parts = [
        "/job:", "worker", "/replica:", "/task:", "/device:", "CPU", "gpu", ":", "/",
        "*", "0", "7", "9" * 30, "-1", " ", "\0", "\ud800", "٣", *string.punctuation,
    ]  # fmt: skip
    for _ in range(ROUNDS):
        text = "".join(generator.choices(parts, k=generator.randrange(9)))
        try:
            name = device_names.parse(text)
        except ValueError:
            continue
        assert device_names.parse(str(name)) == name


def test_damaged_messages_give_a_protocol_error_and_keep_memory_bounded():
    generator = random.Random(2)
    stream = b"".join(
        encode(Message("progress", {"value": any_value(generator)}, b"payload"))
        for _ in range(5)
    )
    for _ in range(ROUNDS):
        decoder = Decoder(limit=2000)
        data = damage(generator, stream)
        try:
            for start in range(0, len(data), 100):
                for message in decoder.feed(data[start : start + 100]):
                    assert isinstance(message.kind, str)
                assert len(decoder.rest) <= 2100
        except ProtocolError:
            continue


@pytest.mark.parametrize("depth", DEPTHS)
def test_deeply_nested_hello_gives_a_protocol_error_at_most(depth):
    body = "[" * depth + "]" * depth
    text = f'{{"kind": "hello", "nonce": 1, "proof": "", "body": {body}}}'.encode()
    data = len(text).to_bytes(4, "big") + bytes(4) + text
    try:
        (hello,) = Decoder().feed(data)
        assert not handshake.verify_hello(KEY, handshake.make_challenge(), hello)
    except ProtocolError:
        pass


def test_forged_handshakes_are_refused_or_give_a_protocol_error():
    generator = random.Random(3)
    for _ in range(ROUNDS):
        names = generator.sample(("nonce", "proof", "body", "refusal"), 3)
        forged = Message("any", {name: any_value(generator) for name in names})
        challenge = generator.choice([handshake.make_challenge(), forged])
        try:
            assert not handshake.verify_hello(KEY, challenge, forged)
            hello = handshake.make_hello(KEY, challenge, {"worker": 1})
            assert not handshake.verify_answer(KEY, challenge, hello, forged)
        except ProtocolError:
            continue
