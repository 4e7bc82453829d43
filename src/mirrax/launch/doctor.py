"""`mirrax doctor`: checks this machine and its cluster before a job starts."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata

import jax

from mirrax.cluster.job_options import read_options
from mirrax.cluster.membership import list_workers, split_address
from mirrax.cluster.net.messages import Decoder, ProtocolError
from mirrax.cluster.resolvers.detection import (
    LAUNCHERS,
    UNKNOWN_HOST,
    find_cluster_resolver,
    find_launcher,
)
from mirrax.cluster.resolvers.tf_config import VARIABLE
from mirrax.devices import default_devices, device_kind
from mirrax.launch.cli import CommandParser

_PACKAGES = ("mirrax", "jax", "jaxlib", "numpy", "keras", "flax")
# Whether the check passed, what was checked, the result.
Finding = tuple[bool, str, str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the report; returns 1 if a check failed."""
    parser = CommandParser(
        prog="mirrax doctor",
        description="Reports versions, devices, the cluster, names and connections.",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=3.0,
        metavar="SECONDS",
        help="time for each connection (default: 3)",
    )
    options = parser.parse_args(arguments)
    if not options.timeout > 0:
        parser.error(f"--timeout must be above 0. Received: {options.timeout}")
    passed = True
    for is_good, what, found in examine(options.timeout):
        passed &= is_good
        print(f"{'ok  ' if is_good else 'FAIL'} {what}: {found}", flush=True)
    return 0 if passed else 1


def examine(timeout: float = 3.0) -> Iterator[Finding]:
    """Yields the findings."""
    yield True, "python", f"{platform.python_version()} on {platform.platform()}"
    for name in _PACKAGES:
        yield True, name, _find_version(name)
    yield _examine_devices()
    yield from _examine_cluster(timeout)


def _find_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _examine_devices() -> Finding:
    try:
        devices = default_devices()
    except RuntimeError as error:
        return False, "devices", f"JAX cannot start: {error}"
    kind = device_kind(devices[0])
    return True, "devices", f"{len(devices)} x {kind}, JAX {jax.__version__}"


def _examine_cluster(timeout: float) -> Iterator[Finding]:
    launcher = None if VARIABLE in os.environ else find_launcher()
    name = f"{launcher.name} ({launcher.marker})" if launcher else VARIABLE
    try:
        resolver = find_cluster_resolver()
        workers = list_workers(resolver.cluster_spec())
        read_options()
    except (ValueError, RuntimeError) as error:
        yield False, name, str(error)
        return
    if not workers:
        others = ", ".join(launcher.marker for launcher in LAUNCHERS)
        found = f"not set, nor {others}" if launcher is None else "one task"
        yield True, name, f"{found}, so this process trains alone"
        return
    task = f"{resolver.task_type} {resolver.task_id}"
    yield True, name, f"{len(workers)} workers, this is {task}"
    for position, worker in enumerate(workers):
        if not worker.host.startswith(UNKNOWN_HOST):
            found_peer = _examine_peer(worker.address, timeout, is_first=position == 0)
            yield found_peer[0], str(worker), found_peer[1]


def _examine_peer(address: str, timeout: float, is_first: bool) -> tuple[bool, str]:
    host, port = split_address(address)
    try:
        ip = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        return False, f"the name {host!r} is unknown here: {error.strerror or error}"
    try:
        with socket.create_connection((host, port), timeout) as sock:
            sock.settimeout(timeout)
            return _identify(sock, str(ip))
    except ConnectionRefusedError:
        # Only the first worker listens, and only while its job runs.
        wait = "no job runs there yet" if is_first else "as it should be before a start"
        return True, f"{ip} answers; the port is free, {wait}"
    except OSError as error:
        reason = error.strerror or str(error)
        return False, f"{ip} cannot be reached: {reason}. Check machine and firewall"


def _identify(sock: socket.socket, ip: str) -> tuple[bool, str]:
    try:
        for message in Decoder().feed(sock.recv(1 << 16)):
            if message.kind == "challenge":
                # Escaped: anybody may have sent it.
                protocol = ascii(message["protocol"])[:20]
                return True, f"{ip}: a Mirrax job listens (protocol {protocol})"
    except (OSError, ProtocolError):
        pass
    return False, f"{ip}: something else listens on this port. Choose another one"


if __name__ == "__main__":
    sys.exit(main())
