"""An authenticated tunnel from JAX's client to its coordination service.

JAX exits the process when its connection to the service breaks, and the service accepts
any client. So the service listens on a Unix socket beside the coordinator, JAX's client
connects to a port of its own process, and an authenticated connection links the two. If
that one breaks, the client's connection stays open.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

from mirrax.cluster.net.sockets import list_sockets

_CHUNK = 1 << 16
_MAX_CHECKS = 25


class Tunnel:
    """A local port that forwards to the coordination service.

    Args:
        connect: Returns a new authenticated connection to the service, and the bytes
            already received on it.
    """

    def __init__(self, connect: Callable[[], tuple[socket.socket, bytes]]) -> None:
        self._connect = connect
        self._listener = socket.create_server(("127.0.0.1", 0))
        # Kept open: JAX exits the process when one closes.
        self._locals: list[socket.socket] = []
        threading.Thread(target=self._serve, name="mirrax-tunnel", daemon=True).start()

    @property
    def port(self) -> int:
        """The port for JAX's client."""
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
            # In a thread, because `_is_own` may take a while.
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
            copy_both_ways(local, remote, keep_first=True)


def copy_both_ways(
    first: socket.socket, second: socket.socket, keep_first: bool = False
) -> None:
    """Copies bytes in both directions, in threads, until one end closes."""

    def forward() -> None:
        _copy(first, second)
        _shut_down(second)

    def back() -> None:
        _copy(second, first)
        if not keep_first:
            _shut_down(first)

    for target in (forward, back):
        threading.Thread(target=target, name="mirrax-tunnel", daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _is_own(port: int) -> bool:
    """Whether a local connection comes from this process, as far as /proc shows."""
    # A listing of /proc may miss an entry while others change.
    for _ in range(_MAX_CHECKS):
        sockets = list_sockets()
        if not sockets or any(entry.local_port == port for entry in sockets):
            return True
        time.sleep(0.02)
    return False
