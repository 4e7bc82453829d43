"""Finds and shuts down the Gloo connections of JAX's CPU collectives.

Gloo waits forever for a lost peer, and JAX cannot interrupt it. Shutting its sockets
down makes the wait fail.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

import jax

from mirrax.cluster.net.sockets import Socket, list_sockets, shut_down_sockets

# A child process started meanwhile may hold the output open.
_FILTER_SECONDS = 1.0


def is_broken_connection(error: BaseException) -> bool:
    """Returns whether an error of JAX may come from a broken connection."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return True
    return isinstance(error, ValueError) and "Gloo" in str(error)


def find_new_listeners(before: list[Socket]) -> list[int]:
    """Returns the ports that this process listens on since `before` was taken."""
    known = {entry.local_port for entry in before if entry.state == "listening"}
    return sorted(
        {entry.local_port for entry in list_sockets() if entry.state == "listening"}
        - known
    )


def shut_down_connections(own_ports: set[int], peer_ports: set[int]) -> int:
    """Shuts down the connections between Gloo's ports; returns how many."""
    return shut_down_sockets(
        [
            entry
            for entry in list_sockets()
            if entry.state == "established"
            and (entry.local_port in own_ports or entry.remote_port in peer_ports)
        ]
    )


@contextlib.contextmanager
def filter_gloo_output() -> Iterator[None]:
    """Drops Gloo's log lines from standard output, in the `with` block."""
    sys.stdout.flush()
    source, target = os.pipe()
    saved = os.dup(1)
    os.dup2(target, 1)
    os.close(target)
    filtering = threading.Thread(target=_filter, args=(source, saved), daemon=True)
    filtering.start()
    try:
        yield
    finally:
        sys.stdout.flush()
        # Closes the last write end, so the thread ends.
        os.dup2(saved, 1)
        filtering.join(_FILTER_SECONDS)
        os.close(saved)


def _filter(source: int, target: int) -> None:
    with os.fdopen(source, "rb") as lines:
        for line in lines:
            if not line.startswith(b"[Gloo]"):
                os.write(target, line)
