"""The coordinator's sockets: authenticates workers and delivers their messages."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import selectors
import socket
import sys
import time
from collections.abc import Iterator

from mirrax.cluster.coordinator.job_state import JobState
from mirrax.cluster.failure import Failure
from mirrax.cluster.net import handshake
from mirrax.cluster.net.messages import MAX_MESSAGE_BYTES, Decoder, Message, encode
from mirrax.cluster.net.tunnel import copy_both_ways

_TICK_SECONDS = 0.1
# Time for the handshake, and how many connections may be in it at once.
_HANDSHAKE_SECONDS = 10.0
_MAX_PENDING = 128
# Checks of all workers take at most this share of the time, however many there are.
_TICK_SHARE = 0.1
_CHUNK = 1 << 18
_LOGGER = logging.getLogger(__name__)


class Parent:
    """The process that started this one, heard through standard input.

    Its first line has the settings of the job.
    """

    def __init__(self) -> None:
        self.is_alive = True
        self._rest = b""
        while b"\n" not in self._rest:
            data = os.read(self.fileno(), _CHUNK)
            if not data:
                sys.exit("The parent is gone.")
            self._rest += data
        first, _, self._rest = self._rest.partition(b"\n")
        self.settings = json.loads(first)
        os.set_blocking(self.fileno(), False)

    def fileno(self) -> int:
        """Returns the file that becomes readable when it sends something, or ends."""
        return sys.stdin.fileno()

    def receive(self) -> list[tuple[int, str, bool]]:
        """Returns new exits of workers: index, how it ended, whether it failed."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.fileno(), _CHUNK)
            self.is_alive = bool(data)
            self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        return [tuple(json.loads(line)) for line in lines]

    def report_failure(self, failure: Failure) -> None:
        # Without details: the line must fit into the buffer of an unread pipe.
        short = dataclasses.replace(failure, details="")
        with contextlib.suppress(OSError):
            sys.stdout.write(json.dumps(dataclasses.asdict(short)) + "\n")
            sys.stdout.flush()


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
        self.events = selectors.EVENT_READ | selectors.EVENT_WRITE


class Server:
    """Serves one job over a listening socket.

    Args:
        service: Connections to JAX's coordination service.
    """

    def __init__(
        self,
        listener: socket.socket,
        key: bytes,
        job: JobState,
        service: Iterator[socket.socket],
        parent: Parent,
    ) -> None:
        self._listener = listener
        self._key = key
        self._job = job
        self._service = service
        self._parent = parent
        self._connections: dict[socket.socket, _Connection] = {}
        self._workers: dict[int, _Connection] = {}
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(parent, selectors.EVENT_READ)

    def serve(self, linger: float) -> None:
        """Serves until the job is over, at most `linger` seconds without a parent."""
        deadline: float | None = None
        has_reported = False
        next_tick = delay = 0.0
        now = time.monotonic()
        self._hear_parent()
        while self._workers or not self._job.is_over:
            last, before = now, time.monotonic()
            self._handle_ready(delay)
            now = time.monotonic()
            self._job.restart_waits_after_pause(last, now)
            # What arrives too soon for another check waits no longer than for that.
            delay = _TICK_SECONDS if now >= next_tick else next_tick - now
            if now >= next_tick:
                self._job.tick(now)
                # What arrived since `before` is not read yet, if there is much to do.
                self._drop_unauthenticated(before)
                taken = time.monotonic() - now
                next_tick = now + min(taken / _TICK_SHARE, _TICK_SECONDS)
            self._deliver()
            if self._job.failure is not None and not has_reported:
                has_reported = True
                self._parent.report_failure(self._job.failure)
            if not self._parent.is_alive:
                deadline = deadline or now + linger
                if now > deadline:
                    return

    def _handle_ready(self, timeout: float) -> None:
        """Waits for sockets that are ready, and serves them."""
        for key, events in self._selector.select(timeout):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._parent:
                self._hear_parent()
            elif key.fileobj in self._connections:
                # Otherwise it was closed while another was handled.
                self._handle(self._connections[key.fileobj], events)

    def _hear_parent(self) -> None:
        for report in self._parent.receive():
            self._job.report_exit(*report)
        if not self._parent.is_alive:
            self._selector.unregister(self._parent)

    def _accept(self) -> None:
        # Until nobody waits, which raises too.
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                deadline = time.monotonic() + _HANDSHAKE_SECONDS
                connection = _Connection(sock, handshake.make_challenge(), deadline)
                self._connections[sock] = connection
                self._selector.register(sock, connection.events)

    def _handle(self, connection: _Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                self._read(connection)
            if (
                events & selectors.EVENT_WRITE
                and connection.socket in self._connections
            ):
                self._write(connection)
        # ProtocolError is a ValueError.
        except (OSError, KeyError, TypeError, ValueError) as error:
            _LOGGER.debug("A connection ends: %s", error)
            self._close(connection)

    def _read(self, connection: _Connection) -> None:
        data = connection.socket.recv(_CHUNK)
        if not data:
            self._close(connection)
            return
        for message in connection.decoder.feed(data):
            if connection.socket not in self._connections:
                return
            if connection.worker is None:
                self._admit(connection, message)
            else:
                self._job.receive(connection.worker, message, time.monotonic())
        self._deliver()

    def _admit(self, connection: _Connection, hello: Message) -> None:
        if not handshake.verify_hello(self._key, connection.challenge, hello):
            host = connection.socket.getpeername()[0]
            self._job.record_refusal(f"a process on {host} with another key")
            self._refuse(connection, hello, "another key")
            return
        body = hello["body"]
        index = body["worker"]
        answer = handshake.make_answer(self._key, connection.challenge, hello)
        if body["role"] == "tunnel":
            self._open_tunnel(connection, answer)
            return
        if not 0 <= index < len(self._job.states):
            self._job.record_refusal(f"worker {index} on {body['hostname']}")
            self._refuse(
                connection,
                hello,
                f"The job has {len(self._job.states)} workers. Received: index "
                f"{index}. Start all workers with the same cluster.",
            )
            return
        reason = self._job.add_worker(index, body, time.monotonic())
        if reason is not None:
            self._refuse(connection, hello, reason)
            return
        connection.worker = index
        connection.decoder.limit = MAX_MESSAGE_BYTES
        self._workers[index] = connection
        self._send(connection, encode(answer))

    def _refuse(self, connection: _Connection, hello: Message, reason: str) -> None:
        answer = handshake.make_answer(self._key, connection.challenge, hello, reason)
        # It fits into the buffer of the socket, which has nothing else to send.
        connection.socket.send(encode(answer))
        self._close(connection)

    def _open_tunnel(self, connection: _Connection, answer: Message) -> None:
        service = next(self._service, None)
        if service is None:
            _LOGGER.warning("No connection to JAX's service is left.")
            self._close(connection)
            return
        self._forget(connection)
        connection.socket.setblocking(True)
        # As for a refusal, there is room for it.
        connection.socket.sendall(encode(answer))
        copy_both_ways(connection.socket, service)

    def _deliver(self) -> None:
        outbox, self._job.outbox = self._job.outbox, []
        last: Message | None = None
        for index, message in outbox:
            if message is not last:
                # One that goes to all workers is encoded once.
                last, data = message, encode(message)
            if index in self._workers:
                self._send(self._workers[index], data)

    def _send(self, connection: _Connection, data: bytes) -> None:
        connection.unsent += data
        if connection.events & selectors.EVENT_WRITE:
            # It waits for room.
            return
        try:
            self._write(connection)
        except OSError as error:
            _LOGGER.debug("A connection ends: %s", error)
            self._close(connection)

    def _write(self, connection: _Connection) -> None:
        if connection.unsent:
            try:
                sent = connection.socket.send(memoryview(connection.unsent)[:_CHUNK])
            except BlockingIOError:
                sent = 0
            del connection.unsent[:sent]
        events = selectors.EVENT_READ
        if connection.unsent:
            events |= selectors.EVENT_WRITE
        if events != connection.events:
            connection.events = events
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
        num_missing = len(self._job.states) - len(self._workers)
        surplus = len(pending) - max(_MAX_PENDING, 2 * num_missing)
        for index, connection in enumerate(pending):
            if index < surplus or connection.deadline < now:
                self._close(connection)
