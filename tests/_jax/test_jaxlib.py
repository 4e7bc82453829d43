"""The private names of jaxlib do what the rest relies on."""

import importlib.util
import tempfile

import jax
import jaxlib
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

from mirrax._jax import jaxlib as jaxlib_internals
from mirrax._jax.jaxlib import (
    make_coordination_client,
    make_gloo,
    put_copy,
    start_coordination_service,
)

# The service and its clients.


@pytest.fixture
def client():
    """The only client of a service."""
    with tempfile.TemporaryDirectory(prefix="mirrax-") as folder:
        address = f"unix:{folder}/service"
        service = start_coordination_service(address, 1)
        client = make_coordination_client(address, 0)
        client.connect()
        yield client
        # First the client: the end of a service ends the process of one that it has.
        client.shutdown()
        service.shutdown()


def test_service_keeps_what_a_client_tells_it(client):
    client.key_value_set("name", "value")
    assert client.blocking_key_value_get("name", 10_000) == "value"


@pytest.mark.parametrize(
    ("make", "private"),
    [
        (start_coordination_service, "_get_service"),
        (make_coordination_client, "_get_client"),
    ],
    ids=["service", "client"],
)
def test_jax_takes_no_process_for_dead(monkeypatch, make, private):
    """It would end the process; that another one is gone, the job finds out."""
    asked = []
    monkeypatch.setattr(
        jaxlib_internals,
        private,
        lambda *args, **options: asked.append((args, options)),
    )
    make("address", 3)
    ((args, options),) = asked
    assert args == ("address", 3)
    assert options["heartbeat_timeout"] > 100 * 24 * 3600
    assert options["shutdown_timeout"] == 1


def test_end_of_a_process_waits_for_no_other(monkeypatch):
    asked = []
    monkeypatch.setattr(
        jaxlib_internals, "_get_client", lambda *args, **options: asked.append(options)
    )
    make_coordination_client("address", 0)
    assert asked[0]["shutdown_on_destruction"] is False


def test_collectives_are_made_for_an_address_of_this_machine(client):
    collectives = make_gloo(client, "127.0.0.1")
    assert isinstance(collectives, jaxlib._jax.CpuCollectives)


def test_collectives_need_an_address_of_this_machine(client):
    with pytest.raises(RuntimeError, match="gloo"):
        make_gloo(client, "203.0.113.7")


# Copies on devices.


def put(value, device):
    aval = jax.core.ShapedArray(value.shape, value.dtype)
    return put_copy(aval, SingleDeviceSharding(device), value, device)


@pytest.mark.parametrize(
    "value",
    [
        np.float32(1.5),
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.arange(8, dtype=np.int8)[::2],
        np.zeros((0, 2), np.float32),
        np.array([True, False]),
    ],
    ids=["scalar", "matrix", "transposed", "strided", "empty", "bool"],
)
def test_copy_has_the_numbers_on_its_device(value):
    value = np.asarray(value)
    device = jax.devices("cpu")[3]
    array = put(value, device)
    assert array.devices() == {device}
    assert (array.shape, array.dtype) == (value.shape, value.dtype)
    assert array.tolist() == value.tolist()


def aligned_ones(size):
    """Returns an array that lies as XLA likes it, so that it could be shared."""
    memory = np.zeros(4 * size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    value = memory[start : start + 4 * size].view(np.float32)
    value[:] = 1
    return value


@pytest.mark.parametrize("size", [1, 1 << 16], ids=["small", "large"])
def test_copy_does_not_change_with_the_original(size):
    value = aligned_ones(size)
    array = put(value, jax.devices("cpu")[0])
    value[:] = 7
    assert float(array.sum()) == size


def test_copy_is_uncommitted():
    first, second = (put(np.ones(2, np.float32), d) for d in jax.devices("cpu")[:2])
    assert not first.committed
    assert (first + second).tolist() == [2, 2]


# Other versions.


def load_again():
    """Loads the module as a new process would."""
    path = jaxlib_internals.__file__
    spec = importlib.util.spec_from_file_location("mirrax_loaded_again", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize(
    "name",
    [
        "get_distributed_runtime_service",
        "get_distributed_runtime_client",
        "make_gloo_tcp_collectives",
        "batched_device_put",
        "HostBufferSemantics",
    ],
)
def test_version_without_one_of_the_names_is_refused(monkeypatch, name):
    load_again()
    monkeypatch.delattr(jaxlib._jax, name)
    message = (
        rf"tested with jaxlib 0.9.2 to 0.10.2 and does not know this version. "
        rf"Received: jaxlib {jaxlib.__version__}. Install 'jax>=0.9.2,<0.11'."
    )
    with pytest.raises(ImportError, match=message):
        load_again()
