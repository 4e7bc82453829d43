import os
import socket
import subprocess
import sys

import pytest

from mirrax.cluster.worker import gloo

QUIET = """
import os, sys
from mirrax.cluster.worker import gloo
print("before")
with gloo.filter_gloo_output():
    print("user")
    os.write(1, b"[Gloo] Rank 0 is connected to 1 peer ranks.\\n")
    os.write(1, b"other library\\n")
print("after")
"""


def test_only_the_lines_of_gloo_are_held_back():
    command = [sys.executable, "-c", QUIET]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = result.stdout.splitlines()
    assert sorted(lines) == ["after", "before", "other library", "user"]
    assert (lines[0], lines[-1]) == ("before", "after")


def test_program_without_an_output_keeps_its_connections():
    program = (
        "import os, socket\n"
        "from mirrax.cluster.worker import gloo\n"
        "one, other = socket.socketpair()\n"
        "with gloo.filter_gloo_output():\n"
        "    one.send(b'x')\n"
        "os._exit(other.recv(1)[0])"
    )
    command = f"exec '{sys.executable}' -c \"{program}\" >&-"
    assert subprocess.run(command, shell=True, check=False).returncode == ord("x")


@pytest.fixture
def connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with client, server:
            yield listener, client, server


def test_connections_of_a_port_are_ended_and_no_others(connection):
    listener, client, server = connection
    port = listener.getsockname()[1]
    assert gloo.shut_down_connections(own_ports={1}, peer_ports={1}) == 0
    client.sendall(b"x")
    assert server.recv(10) == b"x"
    assert gloo.shut_down_connections(own_ports={port}, peer_ports=set()) == 1
    assert client.recv(10) == b""
    # The descriptors still belong to their owners.
    assert os.fstat(client.fileno())


def test_new_listeners_are_found():
    before = gloo.list_listening_ports()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert gloo.list_listening_ports() - before == {listener.getsockname()[1]}


def test_closed_sockets_do_no_harm(connection):
    listener, client, server = connection
    client.close()
    server.close()
    port = listener.getsockname()[1]
    assert gloo.shut_down_connections(own_ports={port}, peer_ports={port}) == 0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("UNKNOWN: Gloo all-reduce failed"), True),
        (ValueError("something else"), False),
        (KeyError("Gloo"), False),
    ],
    ids=["gloo", "value", "key"],
)
def test_errors_of_gloo_are_recognised(error, expected):
    assert gloo.is_broken_connection(error) is expected
