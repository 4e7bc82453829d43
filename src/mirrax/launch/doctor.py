"""`mirrax doctor`: checks this machine and its cluster before a job starts."""

from __future__ import annotations

import argparse
import os
import platform
import socket
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata

import jax

from mirrax.cluster import tf_config_parser
from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.cluster.job_options import read_options
from mirrax.cluster.membership import list_workers, split_address
from mirrax.cluster.net.messages import Decoder, ProtocolError
from mirrax.devices import default_devices, device_kind

_PACKAGES = ("mirrax", "jax", "jaxlib", "numpy", "keras", "flax", "orbax-checkpoint")
# Whether the check passed, what was checked, the result.
Finding = tuple[bool, str, str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the report; returns 1 if a check failed."""
    parser = argparse.ArgumentParser(
        prog="mirrax doctor",
        description="Reports versions, devices, TF_CONFIG, names and connections.",
    )
    parser.add_argument(
        "--timeout", type=float, default=3.0, help="seconds for each connection"
    )
    options = parser.parse_args(arguments)
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
    proxies = sorted(name for name in os.environ if name.lower().endswith("_proxy"))
    if proxies:
        yield True, "proxies", f"{', '.join(proxies)} are set; workers connect directly"
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
    text = os.environ.get(tf_config_parser.VARIABLE, "")
    if not text:
        yield True, tf_config_parser.VARIABLE, "not set, so this process trains alone"
        return
    try:
        config = tf_config_parser.parse(text)
        read_options()
    except ValueError as error:
        yield False, tf_config_parser.VARIABLE, str(error)
        return
    workers = list_workers(ClusterSpec(config.cluster).as_dict())
    task = f"{config.task_type} {config.task_id}"
    yield True, tf_config_parser.VARIABLE, f"{len(workers)} workers, this is {task}"
    for position, worker in enumerate(workers):
        found = _examine_peer(worker.address, timeout, is_first=position == 0)
        yield found[0], str(worker), found[1]


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
                protocol = message["protocol"]
                return True, f"{ip}: a Mirrax job listens (protocol {protocol})"
    except (OSError, ProtocolError):
        pass
    return False, f"{ip}: something else listens on this port. Choose another one"


if __name__ == "__main__":
    sys.exit(main())
