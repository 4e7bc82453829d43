"""A way for JAX's client to its coordination service that never breaks off.

JAX ends the whole process when its connection to the service does, and the service
takes whoever connects. So the service listens on a Unix socket beside the coordinator,
JAX's client talks to a port of its own process, and in between goes a connection of the
job, with its proof of membership. If that ends, the client waits; it is not cut off.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

from mirrax.cluster.net.sockets import list_sockets

_CHUNK = 1 << 16
_LOOKS = 25


class Tunnel:
    """A local port that leads to the coordination service.

    Args:
        connect: Returns a new, authenticated connection to the service, and what has
            already come over it.
    """

    def __init__(self, connect: Callable[[], tuple[socket.socket, bytes]]) -> None:
        self._connect = connect
        self._listener = socket.create_server(("127.0.0.1", 0))
        # Never closed before the process ends: JAX would end the process.
        self._locals: list[socket.socket] = []
        threading.Thread(target=self._serve, name="mirrax-tunnel", daemon=True).start()

    @property
    def port(self) -> int:
        """Where JAX's client is to connect."""
        return int(self._listener.getsockname()[1])

    def ports(self) -> set[int]:
        """Returns the local ports of both ends inside this process."""
        ports = {self.port}
        for local in self._locals:
            with contextlib.suppress(OSError):
                ports.add(local.getpeername()[1])
        return ports

    def _serve(self) -> None:
        while True:
            try:
                local, (_, port) = self._listener.accept()
            except OSError:
                return
            # In a thread, because it takes a while to be sure that one is a stranger.
            threading.Thread(
                target=self._open, args=(local, port), name="mirrax-tunnel", daemon=True
            ).start()

    def _open(self, local: socket.socket, port: int) -> None:
        if not _is_own(port):
            local.close()
            return
        self._locals.append(local)
        with contextlib.suppress(OSError):
            remote, received = self._connect()
            local.sendall(received)
            pump_both_ways(local, remote, keep_first=True)


def pump_both_ways(
    first: socket.socket, second: socket.socket, keep_first: bool = False
) -> None:
    """Copies what comes from each end to the other, in threads, until one ends."""

    def forward() -> None:
        _pump(first, second)
        _end(second)

    def back() -> None:
        _pump(second, first)
        if not keep_first:
            _end(first)

    for target in (forward, back):
        threading.Thread(target=target, name="mirrax-tunnel", daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)


def _end(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _is_own(port: int) -> bool:
    """Whether a local connection comes from this process, as far as one can tell."""
    # The system's list may miss an entry while others come and go.
    for _ in range(_LOOKS):
        sockets = list_sockets()
        if not sockets or any(entry.local_port == port for entry in sockets):
            return True
        time.sleep(0.02)
    return False
