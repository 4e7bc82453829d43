"""The launcher of the first machine: it starts attempts and collects their results."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from mirrax.cluster.membership import split_address
from mirrax.cluster.net import handshake
from mirrax.cluster.net.listener import listen
from mirrax.cluster.net.messages import Decoder, Message, encode
from mirrax.cluster.worker.coordinator_client import keep_alive
from mirrax.errors import CollectiveTimeout
from mirrax.launch.job_result import STOPPED, Cause, JobResult
from mirrax.launch.machines import Machines
from mirrax.launch.worker_plan import LaunchPlan, find_own_host

_POLL_SECONDS = 0.05
_HANDSHAKE_SECONDS = 10.0
# How long the other machines' workers may take to end after those of this one.
_END_SECONDS = 60.0
# How long a job that may run with fewer machines waits for more at its first start.
_MORE_SECONDS = 30.0
_CHUNK = 1 << 16


class Leader:
    """The first machine's side: it starts attempts and collects their results.

    Args:
        grace: Seconds that workers may take to exit.
    """

    def __init__(
        self, machines: Machines, show: Callable[[str], None], grace: float = 0.0
    ) -> None:
        self._machines = machines
        self._end_seconds = _END_SECONDS + grace
        self._show = show
        self._members: list[int] = []
        self._has_started = False
        self._connections: dict[int, socket.socket] = {}
        # Those of the current attempt; a launcher may have come back since.
        self._started: dict[int, socket.socket] = {}
        self._reports: dict[int, Message] = {}
        self._exits: dict[int, tuple[str, bool]] = {}
        self._strangers: set[str] = set()
        self._changed = threading.Condition()
        host = machines.options.bind or find_own_host(machines.hosts)
        self._listener = listen(host, split_address(machines.leader)[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def start_attempt(self, signals: Sequence[int]) -> LaunchPlan:
        """Waits for enough machines and starts them; returns the plan of this one.

        Raises `CollectiveTimeout` if too few machines have come.
        """
        token = secrets.token_hex(16)
        self._members = self._gather(signals)
        self._reports.clear()
        self._exits.clear()
        self._started = dict(self._connections)
        fields = {"members": self._members, "token": token}
        for index in self._members[1:]:
            self._send(index, Message("attempt", fields))
        return self._machines.plan(self._members, 0, token)

    def ended_workers(self) -> dict[int, tuple[str, bool]]:
        """Returns how workers of other machines have ended, and whether they failed."""
        size = self._machines.num_workers
        gone = {
            position * size + rank: ("its launcher is gone", False)
            for position, index in enumerate(self._members)
            if position > 0 and self._is_lost(index)
            for rank in range(size)
        }
        return gone | self._exits

    def collect(self, result: JobResult, signals: Sequence[int]) -> JobResult:
        """Waits until the attempt has ended everywhere; returns the whole result.

        Another signal ends the wait.
        """
        others = self._members[1:]
        num_signals = len(signals)
        self._wait(
            lambda: not self._missing(others) or len(signals) > num_signals,
            self._end_seconds,
        )
        for index in self._missing(others):
            self._forget(index)
        gone = [index for index in others if self._is_gone(index)]
        can_go_on = len(self._members) - len(gone) >= self._machines.min_hosts
        if result.is_preempted and not (gone and can_go_on):
            return result
        results = [result, *(self._result_of(i, result, can_go_on) for i in others)]
        failed = [each for each in results if each.cause is not None]
        # A worker that stopped because of another one is not the cause.
        return min(failed, key=_is_consequence, default=result)

    def finish(self, exit_code: int) -> None:
        """Tells all machines that the job is over."""
        for index in list(self._connections):
            self._send(index, Message("over", {"exit_code": exit_code}))
            with contextlib.suppress(KeyError, OSError):
                self._connections[index].shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            # Closing alone does not wake the thread that accepts.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _gather(self, signals: Sequence[int]) -> list[int]:
        """Returns the machines of the next attempt, this one first."""
        minimum, maximum = self._machines.min_hosts, self._machines.max_hosts
        start = time.monotonic()
        # Later, those that are gone are not waited for.
        more = 0.0 if self._has_started else _MORE_SECONDS

        def has_enough() -> bool:
            count = 1 + len(self._connections)
            waited = time.monotonic() - start
            is_complete = count >= maximum or (count >= minimum and waited >= more)
            return is_complete or bool(signals)

        timeout = self._machines.options.join_timeout
        self._wait(has_enough, timeout)
        present = [0, *sorted(self._connections)][:maximum]
        if len(present) < minimum and not signals:
            missing = [
                host
                for index, host in enumerate(self._machines.hosts)
                if index not in present
            ]
            raise CollectiveTimeout(
                f"{minimum} machines must come within {timeout:g} s. "
                f"Received: no launcher of {', '.join(missing)}. Start it there, check "
                f"that it reaches {self._machines.leader}, or set MIRRAX_JOIN_TIMEOUT."
            )
        if self._has_started and present != self._members:
            self._show(
                f"mirrax launch: Continuing with {len(present)} of "
                f"{len(self._machines.hosts)} machines."
            )
        self._has_started = True
        return present

    def _missing(self, others: Collection[int]) -> list[int]:
        """Returns the machines that still run the attempt."""
        return [
            index
            for index in others
            if index not in self._reports
            and index in self._connections
            and self._connections[index] is self._started.get(index)
        ]

    def _is_lost(self, index: int) -> bool:
        """Returns whether a launcher has left the attempt without a report."""
        return index not in self._reports and not self._missing([index])

    def _is_gone(self, index: int) -> bool:
        report = self._reports.get(index)
        return report is None or bool(report["is_leaving"])

    def _result_of(self, index: int, own: JobResult, can_go_on: bool) -> JobResult:
        """Returns the result with what has happened on another machine."""
        message = self._reports.get(index)
        host = self._machines.hosts[index]
        code, report = own.exit_code or 1, own.report
        if message is None:
            cause = Cause(host, "LauncherLost", "its launcher is gone")
        elif message["is_leaving"]:
            kind = "LauncherLeft" if can_go_on else STOPPED
            cause = Cause(host, kind, "a signal has ended its launcher")
        elif message["cause"] is None:
            return own
        else:
            cause = Cause(**message["cause"])
            code, report = message["exit_code"], message["report"]
        return dataclasses.replace(own, cause=cause, exit_code=code, report=report)

    def _wait(self, is_done: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        with self._changed:
            while not is_done() and time.monotonic() < deadline:
                self._changed.wait(_POLL_SECONDS)

    def _send(self, index: int, message: Message) -> None:
        try:
            self._connections[index].sendall(encode(message))
        except (KeyError, OSError):
            self._forget(index)

    def _forget(self, index: int) -> None:
        with self._changed:
            connection = self._connections.pop(index, None)
            self._changed.notify_all()
        if connection is not None:
            # Tells the launcher there, if it still runs.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(connection,), daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        index = None
        keep_alive(connection)
        with connection:
            # ProtocolError is a ValueError.
            with contextlib.suppress(OSError, KeyError, TypeError, ValueError):
                for message in self._receive(connection):
                    with self._changed:
                        if index is None:
                            index = int(message["host"])
                            self._connections[index] = connection
                        elif self._connections.get(index) is connection:
                            self._take(index, message)
                        self._changed.notify_all()
            if index is not None and self._connections.get(index) is connection:
                self._forget(index)

    def _take(self, index: int, message: Message) -> None:
        if message.kind == "exit":
            how = message["how"], message["has_failed"]
            self._exits[message["worker"]] = how
        else:
            self._reports[index] = message

    def _report_stranger(self, host: str) -> None:
        if host not in self._strangers:
            self._strangers.add(host)
            self._show(
                f"mirrax launch: A process on {host} has another key. MIRRAX_SECRET "
                "must be the same on all machines."
            )

    def _receive(self, connection: socket.socket) -> Iterator[Message]:
        """Yields the body of a launcher that knows the key, then its messages."""
        connection.settimeout(_HANDSHAKE_SECONDS)
        challenge = handshake.make_challenge()
        connection.sendall(encode(challenge))
        decoder = Decoder()
        is_known = False
        while data := connection.recv(_CHUNK):
            for message in decoder.feed(data):
                if is_known:
                    yield message
                    continue
                key = self._machines.key
                is_known = handshake.verify_hello(key, challenge, message)
                refusal = "" if is_known else "another key"
                answer = handshake.make_answer(key, challenge, message, refusal)
                connection.sendall(encode(answer))
                if not is_known:
                    self._report_stranger(connection.getpeername()[0])
                    return
                connection.settimeout(None)
                yield Message("hello", message["body"])


def _is_consequence(result: JobResult) -> bool:
    return result.cause is not None and result.cause.is_consequence
