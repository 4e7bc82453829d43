"""Where the first machine of a job listens for the others."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Sequence

# Reserved for examples; nothing is sent there.
_ANYWHERE = "192.0.2.1"


class AddressError(RuntimeError):
    """This machine cannot listen on an address."""


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket; raises `AddressError`."""
    _open_missing_streams()
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(4096)
    except OSError as error:
        raise AddressError(
            "The first machine of a job must be able to listen on its address. "
            f"Received: {host}:{port}: {error.strerror or error}. Free the port, "
            "correct the address, or set MIRRAX_BIND to an address of this machine, "
            "such as 0.0.0.0."
        ) from error
    return listener


def find_reachable_host(host: str, others: Sequence[str]) -> str:
    """Returns `host`, or an address of this machine if the name is a loopback here.

    On many systems the name of a machine is 127.0.1.1 on that machine. What listens
    there is out of reach for other machines.

    Args:
        others: The hosts that must reach it; if there are none, `host` is returned.

    >>> find_reachable_host("localhost", ["node2"])
    'localhost'
    """
    if not others or is_loopback(host) or not _is_loopback_name(host):
        return host
    for other in (*others, _ANYWHERE):
        # Chooses the address by the route, without sending anything.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
        ):
            probe.connect((other, 9))
            address = str(probe.getsockname()[0])
            if not is_loopback(address):
                return address
    return host


def is_loopback(host: str) -> bool:
    """Returns whether `host` says that it is this machine, seen from itself.

    >>> is_loopback("127.0.0.2"), is_loopback("node1")
    (True, False)
    """
    if not is_ip_address(host):
        return host == "localhost"
    return ipaddress.ip_address(host).is_loopback


def is_ip_address(text: str) -> bool:
    """Returns whether `text` is an IP address, not a name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_loopback_name(host: str) -> bool:
    with contextlib.suppress(OSError):
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
        return is_loopback(str(found))
    return False


def _open_missing_streams() -> None:
    """Opens `os.devnull` as each standard stream that this process was started without.

    Otherwise a socket gets its number, and a child process another stream in its place.
    """
    number = os.open(os.devnull, os.O_RDWR)
    while number <= 2:
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
