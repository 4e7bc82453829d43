"""The way of JAX's client to its service; in a fresh process, which it never leaves."""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile

from mirrax.cluster.net.tunnel import private_socket_path

PROGRAM = """
import os, socket
from mirrax.cluster.net.tunnel import serve_client

far, near = socket.socketpair()
own = socket.socket(socket.AF_UNIX)
with serve_client(near, b"first ") as address:
    path = address.removeprefix("unix:")
    own.connect(path)
    received = own.recv(100)
print("gone", not os.path.exists(os.path.dirname(path)))
own.sendall(b"question")
assert far.recv(100) == b"question"
far.sendall(b"answer")
while len(received) < len(b"first answer"):
    received += own.recv(100)
print(received)
# The far end goes; the client is not told.
far.close()
own.settimeout(0.5)
try:
    print("ended", own.recv(1))
except TimeoutError:
    print("still open")
"""


def test_tunnel_serves_one_client_leaves_no_file_and_never_breaks_off():
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    expected = ["gone True", "b'first answer'", "still open"]
    assert outcome.stdout.splitlines() == expected, outcome.stderr


def test_only_this_user_reaches_the_socket():
    with private_socket_path() as path:
        folder = pathlib.Path(path).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()


def test_long_folder_for_temporary_files_is_no_hindrance(tmp_path, monkeypatch):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with private_socket_path() as path:
        assert len(os.fsencode(path)) < 100
