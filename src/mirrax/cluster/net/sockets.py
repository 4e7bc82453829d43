"""The TCP sockets of this process, from Linux's /proc."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import socket

_SOCKET = re.compile(r"socket:\[(\d+)\]")
_STATES = {"01": "established", "0A": "listening"}


@dataclasses.dataclass(frozen=True)
class Socket:
    """An open TCP socket of this process."""

    descriptor: int
    state: str
    local_port: int
    remote_port: int


def list_sockets() -> list[Socket]:
    """Returns the TCP sockets of this process; [] if /proc is not available."""
    table = _read_table()
    return [
        Socket(descriptor, *table[inode])
        for descriptor, inode in _list_descriptors()
        if inode in table
    ]


def shut_down_sockets(sockets: list[Socket]) -> int:
    """Shuts connections down, so that blocked reads fail. Returns how many.

    The descriptors stay open: their owner closes them.
    """
    count = 0
    for entry in sockets:
        with contextlib.suppress(OSError):
            with socket.socket(fileno=os.dup(entry.descriptor)) as duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)
            count += 1
    return count


def _read_table() -> dict[str, tuple[str, int, int]]:
    table = {}
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            lines = pathlib.Path(f"/proc/self/net/{name}").read_text().splitlines()
            for line in lines[1:]:
                fields = line.split()
                table[fields[9]] = (
                    _STATES.get(fields[3], "other"),
                    int(fields[1].rpartition(":")[2], 16),
                    int(fields[2].rpartition(":")[2], 16),
                )
    return table


def _list_descriptors() -> list[tuple[int, str]]:
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                match = _SOCKET.fullmatch(os.readlink(f"/proc/self/fd/{name}"))
                if match:
                    found.append((int(name), match[1]))
    return found
