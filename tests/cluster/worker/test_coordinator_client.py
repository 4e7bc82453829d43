import os
import warnings

import pytest

from mirrax import errors
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
