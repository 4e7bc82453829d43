import contextlib
import socket

import pytest

from mirrax.cluster.net.listener import find_reachable_host


@pytest.fixture
def own_address():
    """The address of this machine towards others, if it has one."""
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
    ):
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]
    return None


@pytest.fixture
def debian(monkeypatch):
    """Makes node1 this machine, as Debian writes it into /etc/hosts."""
    resolve = socket.getaddrinfo

    def look_up(host, *args, **options):
        names = {"node1": "127.0.1.1", "node2": "192.0.2.7"}
        return resolve(names.get(host, host), *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def test_name_that_is_a_loopback_here_becomes_an_address(debian, own_address):
    found = find_reachable_host("node1", ["unknown.invalid"])
    assert found == (own_address or "node1")


@pytest.mark.parametrize(
    ("host", "others"),
    [
        ("node1", []),
        ("node2", ["node1"]),
        ("127.0.0.1", ["127.0.0.2"]),
        ("localhost", ["node2"]),
        ("no.such.host.invalid", ["node2"]),
    ],
    ids=["alone", "elsewhere", "address", "localhost", "unknown"],
)
def test_other_hosts_stay_as_they_are(debian, host, others):
    assert find_reachable_host(host, others) == host
