"""The coordinator's sockets: authenticates workers and delivers their messages."""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import time
from typing import Protocol

from mirrax.cluster.coordinator.job_state import JobState
from mirrax.cluster.failure import Failure
from mirrax.cluster.net import handshake
from mirrax.cluster.net.messages import (
    MAX_MESSAGE_BYTES,
    Decoder,
    Message,
    ProtocolError,
    encode,
)
from mirrax.cluster.net.tunnel import copy_both_ways

_TICK_SECONDS = 0.1
# Time for the handshake, and how many connections may be in it at once.
_HANDSHAKE_SECONDS = 10.0
_MAX_PENDING = 128
# A worker with this many bytes unread is not alive.
_MAX_UNSENT = 1 << 31
_CHUNK = 1 << 18
_LOGGER = logging.getLogger(__name__)


class Parent(Protocol):
    """The process that started the coordinator."""

    is_done: bool
    """Whether its own workers have ended."""

    def is_alive(self) -> bool:
        """Returns whether it is running."""

    def take_exits(self) -> list[tuple[int, str]]:
        """Returns the exits of workers that it reported since the last call."""

    def report_failure(self, failure: Failure) -> None:
        """Sends it the job's failure."""


class _Connection:
    def __init__(
        self, sock: socket.socket, challenge: Message, deadline: float
    ) -> None:
        self.socket = sock
        self.challenge = challenge
        self.deadline = deadline
        self.decoder = Decoder()
        self.unsent = bytearray(encode(challenge))
        self.worker: int | None = None
        self.is_closing = False


class Server:
    """Serves one job over a listening socket.

    Args:
        listener: The listening socket.
        key: The job key that workers must prove to know.
        job: The state of the job.
        service_path: The Unix socket of JAX's coordination service.
        parent: The process that started this one.
    """

    def __init__(
        self,
        listener: socket.socket,
        key: bytes,
        job: JobState,
        service_path: str,
        parent: Parent,
    ) -> None:
        self._listener = listener
        self._key = key
        self._job = job
        self._service_path = service_path
        self._parent = parent
        self._connections: dict[socket.socket, _Connection] = {}
        self._workers: dict[int, _Connection] = {}
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def serve(self, linger: float) -> None:
        """Serves until the job is over, at most `linger` seconds without a parent."""
        deadline: float | None = None
        has_reported = False
        while not self._is_over():
            for key, events in self._selector.select(_TICK_SECONDS):
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._handle(self._connections[key.fileobj], events)  # type: ignore[index]
            for index, how in self._parent.take_exits():
                self._job.report_exit(index, how)
            now = time.monotonic()
            self._job.tick(now)
            self._deliver()
            self._drop_unauthenticated(now)
            if self._job.failure is not None and not has_reported:
                has_reported = True
                self._parent.report_failure(self._job.failure)
            if not self._parent.is_alive():
                deadline = deadline or now + linger
                if now > deadline:
                    return

    def _is_over(self) -> bool:
        if self._workers or self._job.is_awaiting_exit_report:
            return False
        return self._job.is_over or self._parent.is_done

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            deadline = time.monotonic() + _HANDSHAKE_SECONDS
            connection = _Connection(sock, handshake.make_challenge(), deadline)
            self._connections[sock] = connection
            self._selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _handle(self, connection: _Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                self._read(connection)
            if (
                events & selectors.EVENT_WRITE
                and connection.socket in self._connections
            ):
                self._write(connection)
        except (OSError, ProtocolError, KeyError, TypeError, ValueError) as error:
            _LOGGER.debug("A connection ends: %s", error)
            self._close(connection)

    def _read(self, connection: _Connection) -> None:
        data = connection.socket.recv(_CHUNK)
        if not data:
            self._close(connection)
            return
        for message in connection.decoder.feed(data):
            if connection.worker is None:
                self._admit(connection, message)
            else:
                self._job.receive(connection.worker, message, time.monotonic())
        self._deliver()

    def _admit(self, connection: _Connection, hello: Message) -> None:
        if not handshake.verify_hello(self._key, connection.challenge, hello):
            host = connection.socket.getpeername()[0]
            self._job.record_refusal(f"a process on {host} with another key")
            self._refuse(
                connection,
                "A worker must know the key of the job. Check that MIRRAX_SECRET is "
                "the same for all workers, and that all name the same first worker.",
            )
            return
        body = hello["body"]
        index = body["worker"]
        welcome = handshake.make_welcome(self._key, connection.challenge, hello)
        if body["role"] == "tunnel":
            self._open_tunnel(connection, welcome)
            return
        if not 0 <= index < len(self._job.states):
            self._job.record_refusal(f"worker {index} on {body['hostname']}")
            self._refuse(
                connection,
                f"The job has {len(self._job.states)} workers. Received: index "
                f"{index}. Start all workers with the same cluster.",
            )
            return
        reason = self._job.add_worker(index, body, time.monotonic())
        if reason is not None:
            self._refuse(connection, reason)
            return
        connection.worker = index
        connection.decoder.limit = MAX_MESSAGE_BYTES
        self._workers[index] = connection
        self._send(connection, welcome)

    def _refuse(self, connection: _Connection, reason: str) -> None:
        self._send(connection, Message("refused", {"reason": reason}))
        connection.is_closing = True

    def _open_tunnel(self, connection: _Connection, welcome: Message) -> None:
        self._forget(connection)
        sock = connection.socket
        service = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(_HANDSHAKE_SECONDS)
            sock.sendall(encode(welcome))
            sock.settimeout(None)
            service.connect(self._service_path)
        except OSError:
            sock.close()
            service.close()
            return
        copy_both_ways(sock, service)

    def _deliver(self) -> None:
        while self._job.outbox:
            index, message = self._job.outbox.pop(0)
            if index in self._workers:
                self._send(self._workers[index], message)

    def _send(self, connection: _Connection, message: Message) -> None:
        connection.unsent += encode(message)
        if len(connection.unsent) > _MAX_UNSENT:
            self._close(connection)
            return
        self._watch(connection)

    def _write(self, connection: _Connection) -> None:
        if connection.unsent:
            sent = connection.socket.send(memoryview(connection.unsent)[:_CHUNK])
            del connection.unsent[:sent]
        if not connection.unsent and connection.is_closing:
            self._close(connection)
            return
        self._watch(connection)

    def _watch(self, connection: _Connection) -> None:
        events = selectors.EVENT_READ
        if connection.unsent or connection.is_closing:
            events |= selectors.EVENT_WRITE
        self._selector.modify(connection.socket, events)

    def _close(self, connection: _Connection) -> None:
        self._forget(connection)
        connection.socket.close()
        if connection.worker is not None:
            self._workers.pop(connection.worker, None)
            self._job.disconnect(connection.worker, time.monotonic())

    def _forget(self, connection: _Connection) -> None:
        if self._connections.pop(connection.socket, None) is not None:
            self._selector.unregister(connection.socket)

    def _drop_unauthenticated(self, now: float) -> None:
        pending = [c for c in self._connections.values() if c.worker is None]
        surplus = len(pending) - _MAX_PENDING
        for index, connection in enumerate(pending):
            if index < surplus or connection.deadline < now:
                self._close(connection)
