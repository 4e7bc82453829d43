"""Challenge-response handshake: both ends prove that they know the key of the job.

The coordinator sends a challenge. The worker's hello signs the coordinator's nonce, and
the coordinator's answer signs the worker's nonce. The key is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from typing import Any

from mirrax.cluster.net.messages import Message, ProtocolError

PROTOCOL = 1


def derive_key(first: str, token: str, secret: str) -> bytes:
    """Returns the key of a job.

    Args:
        first: The address of the first worker, used without a token. The rest of the
            configuration is left out, so that a mismatch can still be reported.
        token: The launcher's token for this attempt; empty without a launcher.
    """
    text = json.dumps(["mirrax", PROTOCOL, token or first])
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()


def make_challenge() -> Message:
    """Returns the coordinator's first message."""
    fields = {"nonce": secrets.token_hex(16), "protocol": PROTOCOL}
    return Message("challenge", fields)


def make_hello(key: bytes, challenge: Message, body: dict[str, Any]) -> Message:
    """Returns a worker's reply to a challenge; `body` describes the worker."""
    nonce = secrets.token_hex(16)
    proof = _sign(key, "member", challenge["nonce"], nonce, body)
    return Message("hello", {"nonce": nonce, "proof": proof, "body": body})


def verify_hello(key: bytes, challenge: Message, hello: Message) -> bool:
    """Returns whether the sender of a hello knows the key."""
    expected = _sign(key, "member", challenge["nonce"], hello["nonce"], hello["body"])
    return _equal(expected, hello["proof"])


def make_answer(
    key: bytes, challenge: Message, hello: Message, refusal: str = ""
) -> Message:
    """Returns the coordinator's reply to a hello; `refusal` is empty or the reason."""
    proof = _sign(key, "coordinator", challenge["nonce"], hello["nonce"], refusal)
    return Message("answer", {"refusal": refusal, "proof": proof})


def verify_answer(
    key: bytes, challenge: Message, hello: Message, answer: Message
) -> bool:
    """Returns whether the sender of an answer knows the key."""
    expected = make_answer(key, challenge, hello, answer["refusal"])
    return _equal(expected["proof"], answer["proof"])


def _sign(key: bytes, *parts: Any) -> str:
    try:
        text = json.dumps(parts, sort_keys=True)
    except RecursionError as error:
        raise ProtocolError("A message is too deeply nested.") from error
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _equal(expected: str, received: object) -> bool:
    return isinstance(received, str) and hmac.compare_digest(
        expected.encode(), received.encode(errors="backslashreplace")
    )
