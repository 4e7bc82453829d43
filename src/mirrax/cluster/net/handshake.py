"""Challenge-response handshake: both ends prove that they know the key of the job.

The coordinator sends a challenge. The worker's hello signs the coordinator's nonce, and
the coordinator's welcome signs the worker's nonce. The key is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from typing import Any

from mirrax.cluster.net.messages import Message

PROTOCOL = 1


def derive_key(coordinator: str, token: str, secret: str) -> bytes:
    """Returns the key of a job.

    Args:
        coordinator: The address of the coordinator, used without a token. The rest of
            the configuration is left out, so that a mismatch can still be reported.
        token: The launcher's token for this attempt; empty without a launcher.
        secret: The user's secret; may be empty.
    """
    text = json.dumps(["mirrax", PROTOCOL, token or coordinator])
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


def make_welcome(key: bytes, challenge: Message, hello: Message) -> Message:
    """Returns the coordinator's reply to a hello."""
    return Message("welcome", {"proof": _welcome(key, challenge, hello)})


def verify_welcome(
    key: bytes, challenge: Message, hello: Message, welcome: Message
) -> bool:
    """Returns whether the sender of a welcome knows the key."""
    return _equal(_welcome(key, challenge, hello), welcome["proof"])


def _welcome(key: bytes, challenge: Message, hello: Message) -> str:
    return _sign(key, "coordinator", challenge["nonce"], hello["nonce"], None)


def _sign(key: bytes, *parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _equal(expected: str, received: object) -> bool:
    return isinstance(received, str) and hmac.compare_digest(
        expected.encode(), received.encode()
    )
