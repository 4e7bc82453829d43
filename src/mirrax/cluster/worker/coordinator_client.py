"""A worker's connection to the coordinator."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from mirrax.cluster.membership import split_address
from mirrax.cluster.net import handshake
from mirrax.cluster.net.messages import (
    MEMBER_LIMIT,
    Decoder,
    Message,
    WireError,
    encode,
)
from mirrax.errors import CollectiveTimeout

_RETRY_SECONDS = 0.2
_REPORT_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_CHUNK = 1 << 18
_LOGGER = logging.getLogger(__name__)


class Link:
    """An authenticated connection to the coordinator, with what came over it so far."""

    def __init__(self, sock: socket.socket, decoder: Decoder) -> None:
        self._socket = sock
        self._decoder = decoder
        self._decoder.limit = MEMBER_LIMIT
        self._lock = threading.Lock()
        # A process that is forked, such as a loader's, must not keep the connection
        # open after the end of this one, or that end goes unnoticed.
        os.register_at_fork(after_in_child=sock.close)

    @property
    def local_address(self) -> str:
        """The address of this machine as the coordinator sees it."""
        return str(self._socket.getsockname()[0])

    def send(self, message: Message) -> None:
        """Sends a message; an OSError means that the coordinator is gone."""
        with self._lock:
            self._socket.sendall(encode(message))

    def receive(self) -> Iterator[Message]:
        """Yields the messages that come, until the connection ends."""
        yield from self._decoder.feed(b"")
        with contextlib.suppress(OSError):
            while data := self._socket.recv(_CHUNK):
                yield from self._decoder.feed(data)

    def detach(self) -> tuple[socket.socket, bytes]:
        """Returns the bare socket and what came after the last message."""
        return self._socket, self._decoder.rest

    def close(self) -> None:
        """Ends the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def dial(
    address: str,
    key: bytes,
    body: dict[str, Any],
    timeout: float,
    is_hopeless: Callable[[], bool] = lambda: False,
) -> Link:
    """Returns a connection to the coordinator, which may not have started yet.

    Args:
        address: Where it listens, or will.
        key: The key of the job.
        body: Who this process is.
        timeout: How many seconds to try.
        is_hopeless: Tells that the coordinator will not come.
    """
    started = time.monotonic()
    next_report = started + _REPORT_SECONDS
    while True:
        try:
            return _dial_once(address, key, body)
        except OSError as error:
            reason = error.strerror or str(error)
        now = time.monotonic()
        if now - started > timeout or is_hopeless():
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


def _dial_once(address: str, key: bytes, body: dict[str, Any]) -> Link:
    sock = socket.create_connection(split_address(address), timeout=_ANSWER_SECONDS)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = _introduce(sock, address, key, body)
        sock.settimeout(None)
        return link
    except BaseException:
        sock.close()
        raise


def _introduce(
    sock: socket.socket, address: str, key: bytes, body: dict[str, Any]
) -> Link:
    decoder = Decoder()
    incoming = _receive(sock, decoder)
    try:
        challenge = next(incoming)
        hello = handshake.make_hello(key, challenge, body)
        sock.sendall(encode(hello))
        answer = next(incoming)
        if answer.kind == "refused":
            raise RuntimeError(f"{address} refused this process. {answer['reason']}")
        if not handshake.is_coordinator(key, challenge, hello, answer):
            raise WireError("It does not know the key of the job.")
    except WireError as error:
        raise RuntimeError(
            "The address of the first worker must lead to a Mirrax job of this "
            f"version. Received: something else at {address}: {error} "
            "Choose another port."
        ) from error
    return Link(sock, decoder)


def _receive(sock: socket.socket, decoder: Decoder) -> Iterator[Message]:
    while True:
        data = sock.recv(_CHUNK)
        if not data:
            raise ConnectionResetError("the connection was closed")
        yield from decoder.feed(data)
