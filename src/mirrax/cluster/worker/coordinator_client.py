"""A worker's connection to the coordinator."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from mirrax.cluster.membership import split_address
from mirrax.cluster.net import handshake
from mirrax.cluster.net.messages import (
    MAX_MESSAGE_BYTES,
    Decoder,
    Message,
    ProtocolError,
    encode,
)
from mirrax.errors import CollectiveTimeout

_RETRY_SECONDS = 0.2
_REPORT_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_CHUNK = 1 << 18
_LOGGER = logging.getLogger(__name__)


class CoordinatorClient:
    """An authenticated connection to the coordinator."""

    def __init__(self, sock: socket.socket, decoder: Decoder) -> None:
        self._socket = sock
        self._decoder = decoder
        self._decoder.limit = MAX_MESSAGE_BYTES
        self._lock = threading.Lock()
        # A forked process, such as a data loader's, must not keep the connection open,
        # or the coordinator does not notice that this process has ended.
        os.register_at_fork(after_in_child=sock.close)

    @property
    def local_address(self) -> str:
        return str(self._socket.getsockname()[0])

    def send(self, message: Message) -> None:
        """Sends a message; raises OSError if the coordinator is gone."""
        with self._lock:
            self._socket.sendall(encode(message))

    def receive(self) -> Iterator[Message]:
        """Yields received messages until the connection ends."""
        yield from self._decoder.feed(b"")
        with contextlib.suppress(OSError):
            while data := self._socket.recv(_CHUNK):
                yield from self._decoder.feed(data)

    def detach(self) -> tuple[socket.socket, bytes]:
        """Returns the socket, and the bytes received after the last message."""
        return self._socket, self._decoder.rest

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def connect(
    address: str,
    key: bytes,
    body: dict[str, Any],
    timeout: float,
    sought: str = "first worker",
) -> CoordinatorClient:
    """Connects to the coordinator or a launcher; retries for `timeout` s.

    Args:
        sought: What is at the address, for messages.
    """
    started = time.monotonic()
    next_report = started + _REPORT_SECONDS
    wrong_key = ""
    while True:
        try:
            return _connect_once(address, key, body)
        except OSError as error:
            reason = error.strerror or str(error)
            if isinstance(error, _WrongKeyError):
                wrong_key = reason
        waited = time.monotonic() - started
        if waited > timeout:
            # It may have given up just before this process.
            before = (
                f", and before: {wrong_key!r}" if wrong_key not in {"", reason} else ""
            )
            raise CollectiveTimeout(
                f"The {sought} must be reached within {timeout:g} s. Received: "
                f"{reason!r} from {address}{before}. Check that it was started and "
                "that this machine reaches it (`mirrax doctor`), or set "
                "MIRRAX_JOIN_TIMEOUT.",
                worker=0,
                host=split_address(address)[0],
                phase="start-up",
            )
        if started + waited >= next_report:
            next_report += _REPORT_SECONDS
            _LOGGER.warning(
                "Waiting for the %s at %s: %s (%.0f s of %g).",
                sought,
                address,
                reason,
                waited,
                timeout,
            )
        time.sleep(_RETRY_SECONDS)


def keep_alive(sock: socket.socket) -> None:
    """Makes the system find out within two minutes that the other machine is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("KEEPIDLE", 60), ("KEEPINTVL", 15), ("KEEPCNT", 4)):
        option = getattr(socket, f"TCP_{name}", None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _connect_once(address: str, key: bytes, body: dict[str, Any]) -> CoordinatorClient:
    sock = socket.create_connection(split_address(address), timeout=_ANSWER_SECONDS)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(sock)
        decoder = Decoder()
        answer = _authenticate(sock, decoder, key, body)
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    if answer["refusal"]:
        sock.close()
        raise RuntimeError(f"{address} refused this process. {answer['refusal']}")
    return CoordinatorClient(sock, decoder)


def _authenticate(
    sock: socket.socket, decoder: Decoder, key: bytes, body: dict[str, Any]
) -> Message:
    """Returns the coordinator's answer.

    Whatever comes from a process without the key is a ConnectionError with a text of
    our own, so that a stranger can neither end this process nor write to its terminal.
    """
    incoming = _receive(sock, decoder)
    try:
        challenge = next(incoming)
        hello = handshake.make_hello(key, challenge, body)
        sock.sendall(encode(hello))
        answer = next(incoming)
        if handshake.verify_answer(key, challenge, hello, answer):
            return answer
    except ProtocolError as error:
        raise ConnectionError(
            f"something other than a Mirrax job of this version listens there: {error}"
        ) from error
    raise _WrongKeyError(
        "a process with another key; MIRRAX_SECRET must be the same for all workers, "
        "and all must name the same first worker"
    )


class _WrongKeyError(ConnectionError):
    """What listens there has another key than this process."""


def _receive(sock: socket.socket, decoder: Decoder) -> Iterator[Message]:
    deadline = time.monotonic() + _ANSWER_SECONDS
    while True:
        sock.settimeout(max(0.001, deadline - time.monotonic()))
        data = sock.recv(_CHUNK)
        if not data:
            raise ConnectionResetError("the connection was closed")
        yield from decoder.feed(data)
