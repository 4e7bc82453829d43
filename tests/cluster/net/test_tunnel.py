"""The way of JAX's client to its service; in a fresh process, which it never leaves."""

import subprocess
import sys

PROGRAM = """
import socket, subprocess, sys
from mirrax.cluster.net.tunnel import Tunnel

far, near = socket.socketpair()
tunnel = Tunnel(lambda: (near, b"first "))
poke = (
    "import socket, sys\\n"
    "found = [socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
    " for _ in range(3)]\\n"
    "print('poked', flush=True)\\n"
    "print([s.recv(9) for s in found] == [b''] * 3)"
)
command = [sys.executable, "-c", poke, str(tunnel.port)]
stranger = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
assert stranger.stdout.readline() == "poked\\n"

own = socket.create_connection(("127.0.0.1", tunnel.port))
own.sendall(b"question")
assert far.recv(100) == b"question"
far.sendall(b"answer")
received = b""
while len(received) < len(b"first answer"):
    received += own.recv(100)
print(received)
print("strangers closed", stranger.communicate(timeout=240)[0])
# The far end goes; the client is not told.
far.close()
own.settimeout(0.5)
try:
    print("ended", own.recv(1))
except TimeoutError:
    print("still open")
"""


def test_tunnel_serves_its_own_process_alone_and_never_breaks_off():
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert outcome.stdout.splitlines() == [
        "b'first answer'",
        "strangers closed True",
        "",
        "still open",
    ], outcome.stderr
