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
        """The local address of the connection."""
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
        """Closes the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def connect(
    address: str,
    key: bytes,
    body: dict[str, Any],
    timeout: float,
) -> CoordinatorClient:
    """Connects to the coordinator, retrying until it has started.

    Args:
        address: Its address.
        key: The key of the job.
        body: Describes this process.
        timeout: Seconds to retry.
    """
    started = time.monotonic()
    next_report = started + _REPORT_SECONDS
    while True:
        try:
            return _connect_once(address, key, body)
        except OSError as error:
            reason = error.strerror or str(error)
        now = time.monotonic()
        if now - started > timeout:
            raise CollectiveTimeout(
                f"The first worker must be reached within {timeout:g} s. Received: "
                f"{reason!r} from {address}. Check that it was started and that this "
                "machine reaches it (`mirrax doctor`), or set MIRRAX_JOIN_TIMEOUT.",
                worker=0,
                host=split_address(address)[0],
                phase="start-up",
            )
        if now > next_report:
            next_report = now + _REPORT_SECONDS
            _LOGGER.warning(
                "Waiting for the first worker at %s: %s (%.0f s of %g).",
                address,
                reason,
                now - started,
                timeout,
            )
        time.sleep(_RETRY_SECONDS)


def _connect_once(address: str, key: bytes, body: dict[str, Any]) -> CoordinatorClient:
    sock = socket.create_connection(split_address(address), timeout=_ANSWER_SECONDS)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = _authenticate(sock, address, key, body)
        sock.settimeout(None)
        return client
    except BaseException:
        sock.close()
        raise


def _authenticate(
    sock: socket.socket, address: str, key: bytes, body: dict[str, Any]
) -> CoordinatorClient:
    decoder = Decoder()
    incoming = _receive(sock, decoder)
    try:
        challenge = next(incoming)
        hello = handshake.make_hello(key, challenge, body)
        sock.sendall(encode(hello))
        answer = next(incoming)
        if answer.kind == "refused":
            raise RuntimeError(f"{address} refused this process. {answer['reason']}")
        if not handshake.verify_welcome(key, challenge, hello, answer):
            raise ProtocolError("It does not know the key of the job.")
    except ProtocolError as error:
        raise RuntimeError(
            "The address of the first worker must lead to a Mirrax job of this "
            f"version. Received: something else at {address}: {error} "
            "Choose another port."
        ) from error
    return CoordinatorClient(sock, decoder)


def _receive(sock: socket.socket, decoder: Decoder) -> Iterator[Message]:
    while True:
        data = sock.recv(_CHUNK)
        if not data:
            raise ConnectionResetError("the connection was closed")
        yield from decoder.feed(data)
