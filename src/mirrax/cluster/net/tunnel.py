"""An authenticated tunnel from JAX's client to its coordination service.

JAX's service accepts any client, and JAX exits the process when its connection breaks.
So neither end has a port: both use Unix sockets that only this user can reach, and an
authenticated connection links them. If that one breaks, the client's end stays open.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
from collections.abc import Iterator

_CHUNK = 1 << 16
# Some systems allow 103 bytes for the path of a Unix socket; a TMPDIR may be longer.
_MAX_FOLDER_BYTES = 70
# Kept open: JAX exits the process when one closes.
_client_ends: list[socket.socket] = []


@contextlib.contextmanager
def private_socket_path() -> Iterator[str]:
    """Yields a path for a Unix socket that no other user can reach.

    The folder is removed at the end of the `with` block; connections stay.
    """
    root = tempfile.gettempdir()
    if len(os.fsencode(root)) > _MAX_FOLDER_BYTES:
        root = "/tmp"
    # The folder has mode 0700.
    with tempfile.TemporaryDirectory(prefix="mirrax-", dir=root) as folder:
        yield f"{folder}/socket"


@contextlib.contextmanager
def serve_client(remote: socket.socket, received: bytes) -> Iterator[str]:
    """Yields an address where JAX's client, in the `with` block, reaches `remote`.

    Args:
        received: Bytes already received from `remote`.
    """
    with private_socket_path() as path, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def accept() -> None:
            with contextlib.suppress(OSError):
                local, _ = listener.accept()
                _client_ends.append(local)
                local.sendall(received)
                copy_both_ways(local, remote, keep_first=True)

        threading.Thread(target=accept, name="mirrax-tunnel", daemon=True).start()
        try:
            yield f"unix:{path}"
        finally:
            _shut_down(listener)


def copy_both_ways(
    first: socket.socket, second: socket.socket, keep_first: bool = False
) -> None:
    """Copies bytes in both directions, in threads, until one end closes."""
    for direction in ((first, second, False), (second, first, keep_first)):
        threading.Thread(
            target=_copy, args=direction, name="mirrax-tunnel", daemon=True
        ).start()


def _copy(source: socket.socket, target: socket.socket, keep_target: bool) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    if not keep_target:
        _shut_down(target)


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
