"""Finds and shuts down the Gloo connections of JAX's CPU collectives.

Gloo waits forever for a lost peer, and JAX cannot interrupt it. Shutting its sockets
down makes the wait fail.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import jax
import psutil

from mirrax.cluster.worker.streams import flush_output


def is_broken_connection(error: BaseException) -> bool:
    """Returns whether an error of JAX may come from a broken connection."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return True
    return isinstance(error, ValueError) and "Gloo" in str(error)


def list_listening_ports() -> set[int]:
    """Returns the TCP ports that this process listens on."""
    found = _list_connections(psutil.CONN_LISTEN)
    return {connection.laddr.port for connection in found}


def shut_down_connections(own_ports: set[int], peer_ports: set[int]) -> int:
    """Shuts down the connections between Gloo's ports; returns how many.

    Blocked reads then fail. The descriptors stay open: their owner closes them.
    """
    count = 0
    for connection in _list_connections(psutil.CONN_ESTABLISHED):
        local, remote = connection.laddr.port, connection.raddr.port
        if local in own_ports or remote in peer_ports:
            with contextlib.suppress(OSError):
                with socket.socket(fileno=os.dup(connection.fd)) as duplicate:
                    duplicate.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


@contextlib.contextmanager
def filter_gloo_output() -> Iterator[None]:
    """Holds standard output back in the `with` block, and drops Gloo's log lines."""
    if sys.__stdout__ is None:
        # The program was started without an output: another file may have its number.
        yield
        return
    flush_output()
    saved = os.dup(1)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 1)
        try:
            yield
        finally:
            flush_output()
            os.dup2(saved, 1)
            os.close(saved)
            held.seek(0)
            others = [line for line in held if not line.startswith(b"[Gloo]")]
            with contextlib.suppress(OSError):
                for line in others:
                    os.write(1, line)


def _list_connections(status: str) -> list[Any]:
    connections = psutil.Process().net_connections(kind="tcp")
    return [connection for connection in connections if connection.status == status]
