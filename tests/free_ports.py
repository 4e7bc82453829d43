"""Ports for programs that a test starts, which listen on them a while later."""

import contextlib
import random
import socket

# Linux and macOS give higher ones to whoever asks for any, and to connections.
CHOICES = range(10_000, 32_000)
RANDOM = random.SystemRandom()


def find_free_ports(count=1):
    """Returns free ports in a row, which the system gives to nobody meanwhile."""
    while True:
        first = RANDOM.choice(CHOICES)
        ports = list(range(first, first + count))
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in ports:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return ports
