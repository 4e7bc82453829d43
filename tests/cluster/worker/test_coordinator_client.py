import concurrent.futures
import os
import socket
import warnings

import pytest

from mirrax import errors
from mirrax.cluster.net.messages import Message, encode
from mirrax.cluster.worker.coordinator_client import connect


def test_forked_process_does_not_hide_the_end_of_its_parent(make_cluster):
    cluster = make_cluster(2)
    link = cluster.connect(0)
    descriptor = link._socket.fileno()
    with warnings.catch_warnings():
        # JAX warns of every fork.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        try:
            os.fstat(descriptor)
        except OSError:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert os.fstat(descriptor)
    link.close()


def test_coordinator_that_never_comes_is_named(caplog):
    with pytest.raises(errors.CollectiveTimeout, match=r"within 0.5 s.*mirrax doctor"):
        connect("127.0.0.1:1", b"key", {}, timeout=0.5)


def test_unknown_name_is_told():
    with pytest.raises(errors.CollectiveTimeout, match=r"no\.such\.host\.invalid:1"):
        connect("no.such.host.invalid:1", b"key", {}, timeout=0.1)


def test_process_with_another_key_is_told_after_it_has_gone():
    challenge = Message("challenge", {"nonce": "0"})
    answer = Message("answer", {"refusal": "another key", "proof": "forged"})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            call = pool.submit(connect, address, b"key", {}, 1.0)
            sock, _ = listener.accept()
            with sock:
                sock.sendall(encode(challenge) + encode(answer))
                # The hello; until then, closing would reset the connection.
                assert sock.recv(1 << 16)
        expected = "'a process with another key; MIRRAX_SECRET must be the same"
        with pytest.raises(errors.CollectiveTimeout, match=expected):
            call.result(timeout=240)
