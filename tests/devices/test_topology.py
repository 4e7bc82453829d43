"""Topology: plain facts about replicas, and what follows from them."""

import types

import jax
import pytest
from jax.sharding import PartitionSpec

from mirrax.devices.topology import AXIS, Topology, job_topology, local_topology
from mirrax.errors import DuplicateDevice
from tests.devices.fresh import run_fresh


def cpus(count):
    return tuple(jax.devices("cpu")[:count])


def test_topology_counts_its_replicas():
    topology = Topology(cpus(3))
    assert topology.num_replicas == 3
    assert topology.local_replicas == (0, 1, 2)
    assert topology.local_devices == cpus(3)
    assert not topology.is_single


def test_topology_of_one_device_is_single():
    assert Topology(cpus(1)).is_single


def test_process_runs_only_the_replicas_on_its_devices():
    topology = Topology(cpus(2), process_index=1)
    assert topology.num_replicas == 2
    assert topology.local_replicas == ()
    assert topology.local_devices == ()


def test_names_are_canonical():
    first, second = cpus(2)
    assert Topology((second, first)).names == (
        "/job:localhost/replica:0/task:0/device:CPU:1",
        "/job:localhost/replica:0/task:0/device:CPU:0",
    )


def test_names_tell_the_process_when_there_are_several():
    job = types.SimpleNamespace(
        workers=[types.SimpleNamespace(type="chief", index=0)], num_workers=2
    )
    (name,) = Topology(cpus(1), job=job).names
    assert name == "/job:chief/replica:0/task:0/device:CPU:0"


def test_mesh_has_the_replicas_in_order():
    first, second = cpus(2)
    mesh = Topology((second, first)).mesh
    assert mesh.axis_names == (AXIS,)
    assert mesh.devices.tolist() == [second, first]


def test_shardings_hold_whole_or_split_arrays():
    topology = Topology(cpus(2))
    assert topology.replicated.spec == PartitionSpec()
    assert topology.split.spec == PartitionSpec("replica")
    assert topology.split.shard_shape((4, 3)) == (2, 3)


def test_facts_are_made_once():
    topology = Topology(cpus(2))
    assert topology.mesh is topology.mesh
    assert topology.split is topology.split


def test_equal_facts_are_equal_topologies():
    assert Topology(cpus(2)) == Topology(cpus(2))
    assert hash(Topology(cpus(2))) == hash(Topology(cpus(2)))


@pytest.mark.parametrize(
    "make_other",
    [
        lambda: Topology(cpus(3)),
        lambda: Topology(cpus(2)[::-1]),
        lambda: Topology(cpus(2), process_index=1),
    ],
    ids=["devices", "order", "process"],
)
def test_other_facts_are_another_topology(make_other):
    assert Topology(cpus(2)) != make_other()


def test_devices_of_another_process_are_refused(monkeypatch):
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    message = r"belong to this process, which is process 1. Received: \(CpuDevice"
    with pytest.raises(ValueError, match=message):
        local_topology(cpus(2))


def test_topology_needs_a_device():
    with pytest.raises(
        ValueError, match=r"at least one device. Received: devices=\(\)"
    ):
        Topology(())


def test_topology_refuses_duplicates():
    with pytest.raises(
        DuplicateDevice, match=r"must be distinct. Received: .*CpuDevice"
    ):
        Topology(cpus(1) * 2)


@pytest.mark.parametrize("devices", [None, [], ()], ids=repr)
def test_local_topology_takes_all_devices_by_default(devices):
    assert local_topology(devices).devices == tuple(jax.devices("cpu"))


def test_local_topology_takes_names_and_devices():
    first, second, third = cpus(3)
    topology = local_topology(["CPU:2", first, "/cpu:1"])
    assert topology.devices == (third, first, second)


def test_local_topology_refuses_a_name_of_a_device_that_is_given_too():
    with pytest.raises(DuplicateDevice, match="must be distinct"):
        local_topology(["CPU:0", cpus(1)[0]])


def test_local_topology_refuses_a_single_string():
    with pytest.raises(TypeError, match="list or a tuple"):
        local_topology("CPU:0")


def test_local_topology_refuses_what_is_neither_name_nor_device():
    with pytest.raises(TypeError, match=r"must be a string. Received: 0 of type int"):
        local_topology([0])


def test_local_topology_refuses_devices_that_could_stick():
    code = """
    import os
    os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
    import jax
    jax.config.update("jax_num_cpu_devices", 2)
    jax.devices()
    from mirrax.devices import local_topology
    try:
        local_topology(None)
    except RuntimeError as error:
        print(error)
    """
    assert "Received: 2 devices, 2 threads." in run_fresh(code)


def test_every_worker_brings_the_same_devices():
    job = types.SimpleNamespace(
        workers=[types.SimpleNamespace(name=f"worker {i}") for i in range(2)],
        exchange=lambda topic, own: [own, b'["CPU", [0]]'],
    )
    with pytest.raises(
        ValueError, match=r"worker 0: CPU \[0, 1\]; worker 1: CPU \[0\]"
    ):
        job_topology(job, cpus(2))


@pytest.mark.parametrize("devices", [2, 2.5, "CPU:0", "", {"CPU:0"}], ids=repr)
def test_devices_that_are_no_list_are_refused(devices):
    message = r"`devices` is a list or a tuple of names.*such as \['CPU:0'"
    with pytest.raises(TypeError, match=message):
        local_topology(devices)
