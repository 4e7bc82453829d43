"""The connections that JAX's CPU collectives go over, found and broken from outside.

Gloo waits for a peer for ever, and JAX has no way to stop it. When its sockets are shut
down, whoever waits on them gets an error.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

import jax

from mirrax.cluster.net.sockets import Socket, list_sockets, shut_down

# A process that was started meanwhile may hold the output open.
_FILTER_SECONDS = 1.0


def is_broken_connection(error: BaseException) -> bool:
    """Returns whether JAX raised an error because a connection to a worker ended."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return True
    return isinstance(error, ValueError) and "Gloo" in str(error)


def find_new_listeners(before: list[Socket]) -> list[int]:
    """Returns the ports on which this process listens now and did not before."""
    known = {entry.local_port for entry in before if entry.state == "listening"}
    return sorted(
        {entry.local_port for entry in list_sockets() if entry.state == "listening"}
        - known
    )


def break_connections(own_ports: set[int], peer_ports: set[int]) -> int:
    """Ends the connections between Gloo's ports; returns how many there were."""
    return shut_down(
        [
            entry
            for entry in list_sockets()
            if entry.state == "established"
            and (entry.local_port in own_ports or entry.remote_port in peer_ports)
        ]
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps Gloo's own lines off the standard output, and lets all others through."""
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
        # This closes the last end that writes, so the thread comes to its end.
        os.dup2(saved, 1)
        filtering.join(_FILTER_SECONDS)
        os.close(saved)


def _filter(source: int, target: int) -> None:
    with os.fdopen(source, "rb") as lines:
        for line in lines:
            if not line.startswith(b"[Gloo]"):
                os.write(target, line)
