"""Who may join: both ends prove that they know the key of the job, and do not tell it.

The coordinator sends a challenge, the newcomer answers with a hello that is signed for
that challenge, and the coordinator's welcome is signed for the newcomer's own.
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
        coordinator: The address of the coordinator, for jobs without a token. Nothing
            else of the configuration, so that a worker whose configuration differs
            can still say so.
        token: What the launcher made for this attempt; empty without a launcher.
        secret: What the user set; empty if nothing.
    """
    text = json.dumps(["mirrax", PROTOCOL, token or coordinator])
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()


def make_challenge() -> Message:
    """Returns what the coordinator says first."""
    fields = {"nonce": secrets.token_hex(16), "protocol": PROTOCOL}
    return Message("challenge", fields)


def make_hello(key: bytes, challenge: Message, body: dict[str, Any]) -> Message:
    """Returns the answer of a newcomer, who is what `body` says."""
    nonce = secrets.token_hex(16)
    proof = _sign(key, "member", challenge["nonce"], nonce, body)
    return Message("hello", {"nonce": nonce, "proof": proof, "body": body})


def is_member(key: bytes, challenge: Message, hello: Message) -> bool:
    """Returns whether who answered knows the key."""
    expected = _sign(key, "member", challenge["nonce"], hello["nonce"], hello["body"])
    return _equal(expected, hello["proof"])


def make_welcome(key: bytes, challenge: Message, hello: Message) -> Message:
    """Returns the coordinator's answer to a member."""
    return Message("welcome", {"proof": _welcome(key, challenge, hello)})


def is_coordinator(
    key: bytes, challenge: Message, hello: Message, welcome: Message
) -> bool:
    """Returns whether who sent the welcome knows the key too."""
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
