"""Who is no member gets nowhere, and disturbs nobody."""

import concurrent.futures
import contextlib
import socket
import struct
import types

import pytest

from mirrax import errors
from mirrax.cluster.coordinator.server import Server
from mirrax.cluster.net.handshake import derive_key
from mirrax.cluster.net.messages import Message, encode
from mirrax.cluster.worker.coordinator_client import connect

GARBAGE = [
    b"",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64,
    b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x02os\x94\x8c\x06system\x94\x93\x94.",
    struct.pack("!II", 2**32 - 1, 2**32 - 1),
    struct.pack("!II", 100_000, 0) + b"[" * 100_000,
    encode(Message("hello")),
    encode(Message("hello", {"nonce": 1, "proof": 2, "body": 3})),
    encode(Message("hello", {"nonce": [], "proof": "x", "body": {"worker": "x"}})),
    encode(Message("exchange", {"topic": "t"})),
    encode(Message("failed", {"traceback": "forged"})),
]


def poke(address, data):
    host, port = address.split(":")
    sock = socket.create_connection((host, int(port)), timeout=60)
    sock.sendall(data)
    return sock


def test_garbage_scans_and_silent_connections_disturb_no_job(make_cluster):
    cluster = make_cluster(2)
    strangers = [poke(cluster.address, data) for data in GARBAGE]
    for _ in range(50):
        poke(cluster.address, b"").close()
    jobs = cluster.start()
    strangers += [poke(cluster.address, data) for data in GARBAGE]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(job.exchange, "t", b"x") for job in jobs]
        assert [call.result(timeout=120) for call in calls] == [[b"x", b"x"]] * 2
    for stranger in strangers:
        stranger.close()


def test_more_silent_strangers_than_allowed_are_dropped(make_cluster):
    cluster = make_cluster(2)
    strangers = [poke(cluster.address, b"") for _ in range(200)]
    jobs = cluster.start()
    assert all(job.failure is None for job in jobs)
    for stranger in strangers:
        stranger.close()


@pytest.mark.parametrize("role", ["worker", "tunnel"])
def test_wrong_key_is_refused_with_what_to_check(make_cluster, role):
    cluster = make_cluster(2)
    with pytest.raises(RuntimeError, match=r"another key.*MIRRAX_SECRET"):
        cluster.connect(
            1, key=derive_key("", "token", "another"), role=role, timeout=0.1
        )


def test_refused_process_may_be_the_one_that_is_missing(make_cluster):
    # Both must arrive before the deadline, on a busy machine too.
    cluster = make_cluster(2, join_timeout=8.0)
    job = cluster.join(0)
    with pytest.raises(RuntimeError, match="another key"):
        cluster.connect(1, key=derive_key("", "token", "another"), timeout=0.1)
    expected = r"Missing: worker 1 \(127.*\); refused: a process on 127.0.0.1 with an"
    with pytest.raises(errors.CollectiveTimeout, match=expected):
        job.wait_for_start()


@pytest.mark.parametrize("index", [-1, 2])
def test_worker_of_another_job_is_refused(make_cluster, index):
    cluster = make_cluster(2)
    with pytest.raises(RuntimeError, match="The job has 2 workers"):
        cluster.connect(0, worker=index)


def test_second_process_with_one_index_is_refused(make_cluster):
    cluster = make_cluster(2)
    cluster.start()
    with pytest.raises(RuntimeError, match="Each worker joins once"):
        cluster.connect(1)


def challenged(*answers):
    """A stranger's whole conversation with a worker."""
    return b"".join(map(encode, (Message("challenge", {"nonce": "0"}), *answers)))


@pytest.mark.parametrize(
    ("conversation", "reason"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "something other"),
        (challenged(Message("refused", {"reason": "\x1b[2J"})), "something other"),
        (
            challenged(Message("answer", {"refusal": "\x1b[2J", "proof": "\ud800"})),
            "another key",
        ),
        (challenged(Message("\x1b[2J")), "something other"),
    ],
    ids=["ssh", "refused", "forged", "escapes"],
)
def test_stranger_on_the_port_neither_ends_a_worker_nor_writes_to_its_terminal(
    conversation, reason
):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(connect, address, b"key", {}, 0.3)
            # The worker tries again and again, until its time is over.
            listener.settimeout(10)
            while not call.done():
                with contextlib.suppress(OSError):
                    sock, _ = listener.accept()
                    with sock:
                        sock.sendall(conversation)
                        sock.recv(1 << 16)
                    listener.settimeout(0.5)
            with pytest.raises(RuntimeError, match=reason) as info:
                call.result(timeout=120)
    assert "\x1b" not in str(info.value)


def test_coordinator_listens_only_where_it_is_told(make_cluster):
    cluster = make_cluster(2)
    with pytest.raises(OSError, match=r"refused"):
        socket.create_connection(("127.0.0.2", cluster.coordinator.port), timeout=60)


class ClosingServer(Server):
    """Closes all connections when it should handle one, as if they had broken."""

    def _handle(self, connection, events):
        for other in list(self._connections.values()):
            self._close(other)


def test_connection_that_is_closed_while_another_is_served_ends_nothing():
    job = types.SimpleNamespace(states=[], outbox=[], failure=None, is_over=False)
    job.tick = lambda now: None
    job.restart_waits_after_pause = lambda last, now: None
    gone, other = socket.socketpair()
    other.close()
    parent = types.SimpleNamespace(is_alive=True, receive=list, fileno=gone.fileno)

    def receive():
        parent.is_alive = bool(gone.recv(1))
        return []

    parent.receive = receive
    with gone, socket.create_server(("127.0.0.1", 0)) as listener:
        server = ClosingServer(listener, b"key", job, iter(()), parent)
        clients = [socket.create_connection(listener.getsockname()) for _ in range(2)]
        # Returns once both have been closed, because there is no parent.
        server.serve(linger=0.0)
        for client in clients:
            client.settimeout(60)
            assert client.recv(1) == b""
            client.close()
