"""Attacks the coordinator's port, and every port that a worker listens on.

    python soak/faults/attacker.py garbage|half-open|replay|flood

Started by a worker of `soak/faults/program.py`; ends with it.
"""

import contextlib
import os
import random
import socket
import sys
import time

import psutil

from mirrax.cluster.membership import split_address
from mirrax.cluster.net import handshake
from mirrax.cluster.net.messages import Decoder, encode

GARBAGE = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x02os\x94\x8c\x06system\x94\x93\x94.",
    b"\xff" * 64,
)
MAX_HELD = 150
BODY = {"role": "worker", "worker": 0, "pid": 1, "hostname": "x", "configuration": {}}


def main():
    attack = ATTACKS[sys.argv[1]]
    worker = os.getppid()
    coordinator = os.environ["MIRRAX_COORDINATOR"]
    held = []
    while os.getppid() == worker:
        for address in [split_address(coordinator), *find_listeners(worker)]:
            # Not accepted in time, or closed by the other side: as it should be.
            with contextlib.suppress(OSError):
                attack(address, held)
        del held[:-MAX_HELD]
        time.sleep(0.02)


def find_listeners(process_id):
    with contextlib.suppress(psutil.Error):
        for found in psutil.Process(process_id).net_connections("tcp"):
            if found.status == psutil.CONN_LISTEN:
                yield found.laddr.ip, found.laddr.port


def send_garbage(address, held):
    with connect(address) as sock:
        sock.sendall(random.choice((*GARBAGE, random.randbytes(1000))))


def hold(address, held):
    sock = connect(address)
    held.append(sock)
    sock.sendall(b"\0\0")


def replay(address, held):
    """Sends a hello that was right for an earlier connection."""
    coordinator = os.environ["MIRRAX_COORDINATOR"]
    key = handshake.derive_key(coordinator, os.environ.get("MIRRAX_TOKEN", ""), "")
    hello = handshake.make_hello(key, handshake.make_challenge(), BODY)
    with connect(address) as sock:
        sock.sendall(encode(hello))
        list(Decoder().feed(sock.recv(4096)))


def flood(address, held):
    for _ in range(50):
        connect(address).close()


def connect(address):
    return socket.create_connection(address, timeout=0.5)


ATTACKS = {
    "garbage": send_garbage,
    "half-open": hold,
    "replay": replay,
    "flood": flood,
}


if __name__ == "__main__":
    main()
