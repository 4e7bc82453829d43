"""Who is no member gets nowhere, and disturbs nobody."""

import concurrent.futures
import socket
import struct

import pytest

from mirrax import errors
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
    encode(Message("exchange", {"number": 0, "topic": "t"})),
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
    with pytest.raises(RuntimeError, match=r"refused this process.*MIRRAX_SECRET"):
        cluster.connect(1, key=derive_key("", "token", "another"), role=role)


def test_refused_process_may_be_the_one_that_is_missing(make_cluster):
    cluster = make_cluster(2, join_timeout=2.0)
    job = cluster.join(0)
    with pytest.raises(RuntimeError, match="refused this process"):
        cluster.connect(1, key=derive_key("", "token", "another"))
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


def test_something_else_on_the_port_is_recognised():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(connect, address, b"key", {}, 5.0)
            sock, _ = listener.accept()
            sock.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
            with pytest.raises(RuntimeError, match=r"something else at 127.0.0.1"):
                call.result(timeout=120)
            sock.close()


def test_coordinator_listens_only_where_it_is_told(make_cluster):
    cluster = make_cluster(2)
    with pytest.raises(OSError, match=r"refused"):
        socket.create_connection(("127.0.0.2", cluster.coordinator.port), timeout=60)
