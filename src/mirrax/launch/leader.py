"""The launcher of the first machine: it starts attempts and collects their results."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence

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


@dataclasses.dataclass
class _Launcher:
    """The launcher of another machine, from its connection to its end.

    Args:
        exits: How its workers have ended in this attempt, and whether they failed.
        report: How this attempt has ended there; None while it runs.
        loss: Why there is no report if it is not connected.
    """

    index: int
    connection: socket.socket
    is_connected: bool = True
    exits: dict[int, tuple[str, bool]] = dataclasses.field(default_factory=dict)
    report: Message | None = None
    loss: str = "its launcher is gone"

    @property
    def is_running(self) -> bool:
        return self.is_connected and self.report is None

    @property
    def is_gone(self) -> bool:
        return self.report is None or bool(self.report["is_leaving"])

    def take(self, message: Message) -> None:
        if message.kind == "exit":
            self.exits[message["worker"]] = message["how"], message["has_failed"]
        else:
            self.report = message


class Leader:
    """The first machine's side: it starts attempts and collects their results."""

    def __init__(
        self, machines: Machines, show: Callable[[str], None], grace: float = 0.0
    ) -> None:
        self._machines = machines
        self._end_seconds = _END_SECONDS + grace
        self._show = show
        # Those that are connected, by machine, and those of the current attempt.
        self._launchers: dict[int, _Launcher] = {}
        self._others: list[_Launcher] | None = None
        # What was said about launchers that were refused; each tries again for minutes.
        self._said: set[str] = set()
        self._changed = threading.Condition()
        host = machines.options.bind or find_own_host(machines.hosts)
        self._listener = listen(host, split_address(machines.leader)[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def start_attempt(self, signals: Sequence[int]) -> LaunchPlan:
        """Waits for enough machines and starts them; returns the plan of this one.

        Raises `CollectiveTimeout` if too few machines have come. After a signal it
        starts none: no coordinator would wait for their workers.
        """
        token = secrets.token_hex(16)
        self._others = self._gather(signals)
        members = [0, *(launcher.index for launcher in self._others)]
        for launcher in () if signals else self._others:
            launcher.exits, launcher.report = {}, None
            fields = {"members": members, "token": token}
            self._send(launcher, Message("attempt", fields))
        return self._machines.plan(members, 0, token)

    def ended_workers(self) -> dict[int, tuple[str, bool]]:
        """Returns how workers of other machines have ended, and whether they failed."""
        size = self._machines.num_workers
        ended: dict[int, tuple[str, bool]] = {}
        for position, launcher in enumerate(self._others or (), 1):
            if launcher.report is None and not launcher.is_connected:
                ranks = range(position * size, (position + 1) * size)
                ended |= dict.fromkeys(ranks, (launcher.loss, False))
            ended |= launcher.exits
        return ended

    def report_exit(self, worker_index: int, how: str, has_failed: bool) -> None:
        """Does nothing: the coordinator is on this machine."""

    def collect(self, result: JobResult, signals: Sequence[int]) -> JobResult:
        """Waits until the attempt has ended everywhere; returns the whole result.

        Another signal ends the wait.
        """
        others = self._others or []
        num_signals = len(signals)

        def has_ended() -> bool:
            is_running = any(launcher.is_running for launcher in others)
            return not is_running or len(signals) > num_signals

        self._wait(has_ended, self._end_seconds)
        loss = f"its launcher did not report within {self._end_seconds:g} s"
        if len(signals) > num_signals:
            loss = "another signal ended the wait for its launcher"
        for launcher in others:
            if launcher.is_running:
                launcher.loss = loss
                self._forget(launcher)
        num_left = 1 + sum(not launcher.is_gone for launcher in others)
        can_go_on = num_left >= self._machines.min_hosts
        if result.is_preempted and not (num_left <= len(others) and can_go_on):
            return result
        results = [result, *(self._result_of(x, result, can_go_on) for x in others)]
        failed = [each for each in results if each.cause is not None]
        # A worker that stopped because of another one is not the cause.
        return min(failed, key=_is_consequence, default=result)

    def finish(self, exit_code: int) -> None:
        """Tells all machines that the job is over."""
        for launcher in list(self._launchers.values()):
            self._send(launcher, Message("over", {"exit_code": exit_code}))
            with contextlib.suppress(OSError):
                launcher.connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            # Closing alone does not wake the thread that accepts.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _gather(self, signals: Sequence[int]) -> list[_Launcher]:
        """Returns the launchers of the other machines of the next attempt."""
        minimum, maximum = self._machines.min_hosts, self._machines.max_hosts
        start = time.monotonic()
        # Later, those that are gone are not waited for.
        more = _MORE_SECONDS if self._others is None else 0.0

        def has_enough() -> bool:
            count = 1 + len(self._launchers)
            waited = time.monotonic() - start
            is_complete = count >= maximum or (count >= minimum and waited >= more)
            return is_complete or bool(signals)

        timeout = self._machines.options.join_timeout
        self._wait(has_enough, timeout)
        present = [one for _, one in sorted(self._launchers.items())][: maximum - 1]
        hosts = self._machines.hosts
        if 1 + len(present) < minimum and not signals:
            known = {0, *(launcher.index for launcher in present)}
            missing = [host for i, host in enumerate(hosts) if i not in known]
            raise CollectiveTimeout(
                f"{minimum} machines must come within {timeout:g} s. "
                f"Received: no launcher of {', '.join(missing)}. Start it there, check "
                f"that it reaches {self._machines.leader}, or set MIRRAX_JOIN_TIMEOUT."
            )
        before = present if self._others is None else self._others
        if [x.index for x in present] != [x.index for x in before]:
            self._show(
                f"mirrax launch: Continuing with {1 + len(present)} of {len(hosts)} "
                "machines."
            )
        return present

    def _result_of(
        self, launcher: _Launcher, own: JobResult, can_go_on: bool
    ) -> JobResult:
        """Returns the result with what has happened on another machine."""
        message = launcher.report
        host = self._machines.hosts[launcher.index]
        code, report = own.exit_code or 1, own.report
        if message is None:
            cause = Cause(host, "LauncherLost", launcher.loss)
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

    def _send(self, launcher: _Launcher, message: Message) -> None:
        try:
            launcher.connection.sendall(encode(message))
        except OSError:
            self._forget(launcher)

    def _forget(self, launcher: _Launcher) -> None:
        with self._changed:
            launcher.is_connected = False
            if self._launchers.get(launcher.index) is launcher:
                del self._launchers[launcher.index]
            self._changed.notify_all()
        # Tells the launcher there, if it still runs.
        with contextlib.suppress(OSError):
            launcher.connection.shutdown(socket.SHUT_RDWR)

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
        # ProtocolError is a ValueError; StopIteration is an early end.
        ends = OSError, KeyError, TypeError, ValueError, StopIteration
        with connection, contextlib.suppress(*ends):
            messages = _receive(connection)
            launcher = self._add(self._admit(connection, messages), connection)
            try:
                for message in messages:
                    with self._changed:
                        launcher.take(message)
                        self._changed.notify_all()
            finally:
                self._forget(launcher)

    def _admit(self, connection: socket.socket, messages: Iterator[Message]) -> int:
        """Returns the machine of a launcher; raises unless it belongs to the job."""
        keep_alive(connection)
        connection.settimeout(_HANDSHAKE_SECONDS)
        key, challenge = self._machines.key, handshake.make_challenge()
        connection.sendall(encode(challenge))
        hello = next(messages)
        host = connection.getpeername()[0]
        if handshake.verify_hello(key, challenge, hello):
            refusal = self._machines.find_difference(hello["body"])
            text = f"A launcher on {host} was refused. {refusal}"
        else:
            refusal = "another key"
            text = (
                f"A process on {host} has another key. MIRRAX_SECRET must be the same "
                "on all machines."
            )
        if refusal and text not in self._said:
            self._said.add(text)
            self._show(f"mirrax launch: {text}")
        answer = handshake.make_answer(key, challenge, hello, refusal)
        connection.sendall(encode(answer))
        if refusal:
            raise ConnectionRefusedError(refusal)
        connection.settimeout(None)
        return int(hello["body"]["host"])

    def _add(self, index: int, connection: socket.socket) -> _Launcher:
        with self._changed:
            # One that comes back may come before the end of its old connection.
            if index in self._launchers:
                self._forget(self._launchers[index])
            launcher = self._launchers[index] = _Launcher(index, connection)
            self._changed.notify_all()
        return launcher


def _receive(connection: socket.socket) -> Iterator[Message]:
    decoder = Decoder()
    while data := connection.recv(_CHUNK):
        yield from decoder.feed(data)


def _is_consequence(result: JobResult) -> bool:
    return result.cause is not None and result.cause.is_consequence
