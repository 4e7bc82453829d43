"""MirroredStrategy: which devices, and how values are added up."""

import jax
import pytest

import mirrax
from mirrax.errors import DuplicateDevice


def short_names(strategy):
    return [name.rsplit("/", 1)[1] for name in strategy.extended.worker_devices]


@pytest.mark.parametrize("devices", [None, [], ()], ids=repr)
def test_all_devices_are_taken_by_default(devices):
    strategy = mirrax.MirroredStrategy(devices)
    assert strategy.num_replicas_in_sync == len(jax.devices("cpu"))


@pytest.mark.parametrize("num_replicas", [1, 2, 3, 8])
def test_there_is_one_replica_per_device(num_replicas):
    devices = tuple(f"CPU:{i}" for i in range(num_replicas))
    strategy = mirrax.MirroredStrategy(devices=devices)
    assert strategy.num_replicas_in_sync == num_replicas


def test_logical_devices_are_taken():
    first, second, *_ = mirrax.config.list_logical_devices("CPU")
    strategy = mirrax.MirroredStrategy([second, first])
    assert short_names(strategy) == ["device:CPU:1", "device:CPU:0"]
    one = mirrax.OneDeviceStrategy(second)
    assert short_names(one) == ["device:CPU:1"]


def test_replicas_keep_the_order_of_the_devices():
    strategy = mirrax.MirroredStrategy(["/cpu:2", jax.devices("cpu")[0], "CPU:1"])
    assert short_names(strategy) == ["device:CPU:2", "device:CPU:0", "device:CPU:1"]


@pytest.mark.parametrize("error", [DuplicateDevice, AssertionError, ValueError])
def test_device_named_twice_is_refused(error):
    with pytest.raises(error, match="must be distinct"):
        mirrax.MirroredStrategy(["CPU:0", "/device:CPU:0"])


def test_single_name_is_no_list():
    with pytest.raises(TypeError, match="list or a tuple"):
        mirrax.MirroredStrategy("CPU:0")


def test_algorithm_is_checked_before_anything_else():
    with pytest.raises(ValueError, match="Received: 'nccl'"):
        mirrax.MirroredStrategy(["CPU:0"], cross_device_ops="nccl")


def test_strategies_over_the_same_devices_are_different():
    first = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    second = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    with first.scope():
        v = mirrax.Variable(1.0)
    assert first != second
    assert not second.extended.variable_created_in_scope(v)
