"""Where a reduced value goes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.collectives.destinations import (
    HasDevices,
    devices_of,
    host_view,
    put_on_destinations,
)
from mirrax.devices.topology import Topology
from mirrax.values.layouts import replicate, to_device
from mirrax.values.mirrored import Mirrored
from mirrax.values.per_replica import PerReplica
from tests.programs import create, cut_in_two, device_of, mirrored

cpus = jax.devices("cpu")


def over(*indices):
    return Topology(tuple(cpus[i] for i in indices))


HERE = over(0, 1)


# Which devices are meant.


@pytest.mark.parametrize(
    ("destinations", "expected"),
    [
        ("CPU:3", [3]),
        ("/device:CPU:2", [2]),
        (["CPU:4", "CPU:1"], [4, 1]),
        (("CPU:5",), [5]),
        (PerReplica((1.0, 2.0)), [0, 1]),
    ],
    ids=["name", "long name", "list", "tuple", "per replica"],
)
def test_devices_are_those_that_are_named(destinations, expected):
    assert devices_of(destinations, HERE) == tuple(cpus[i] for i in expected)


def test_devices_are_those_of_a_mirrored_value():
    there = over(5, 1, 7, 0, 3)
    value = Mirrored(replicate(jnp.ones(2), there))
    assert devices_of(value, HERE) == there.devices


def test_devices_are_those_of_an_array_on_one_device():
    assert devices_of(to_device(1.0, cpus[6]), HERE) == (cpus[6],)


def test_array_on_several_devices_means_those_of_the_replicas():
    assert devices_of(replicate(jnp.ones(2), over(2, 3)), HERE) == HERE.devices


def test_devices_are_those_of_a_variable():
    variable = create(mirrored(2), 1.0)
    assert set(devices_of(variable, over(4, 5))) == set(cpus[:2])
    assert isinstance(variable, HasDevices)


def test_whatever_knows_its_devices_is_asked_for_them():
    class Shelf:
        lies_on = (cpus[7],)

    assert devices_of(Shelf(), HERE) == (cpus[7],)


@pytest.mark.parametrize("destinations", [None, 3, {"a": 1}, np.ones(2)], ids=repr)
def test_something_else_is_no_destination(destinations):
    message = (
        "`destinations` must be a variable, a distributed value, a device name or a "
        "list of names. Received: "
    )
    with pytest.raises(TypeError, match=message):
        devices_of(destinations, HERE)


def test_device_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="Received: 'GPU:0'"):
        devices_of("GPU:0", HERE)


# Values are brought there.


@pytest.mark.parametrize(
    "value",
    [2.5, np.float32(2.5), jnp.float32(2.5), replicate(2.5, over(4, 5))],
    ids=["number", "numpy", "array", "replicated"],
)
def test_value_for_one_device_is_an_array_there(value):
    placed = put_on_destinations(value, "CPU:2", HERE)
    assert device_of(placed) == cpus[2]
    assert placed.shape == ()
    assert placed == 2.5
    assert not placed.committed


@pytest.mark.parametrize(
    "value",
    [2.5, np.float32(2.5), jnp.float32(2.5), replicate(2.5, over(4, 5))],
    ids=["number", "numpy", "array", "replicated"],
)
def test_value_for_several_devices_is_mirrored_there(value):
    placed = put_on_destinations(value, ["CPU:2", "CPU:3"], HERE)
    assert isinstance(placed, Mirrored)
    assert [device_of(part) for part in placed.values] == [cpus[2], cpus[3]]
    assert [float(part) for part in placed.values] == [2.5, 2.5]


@pytest.mark.parametrize("name", ["CPU:0", "CPU:1", "CPU:2"])
def test_array_that_is_cut_arrives_whole_on_one_device(name):
    placed = put_on_destinations(cut_in_two(jnp.arange(4)), name, HERE)
    assert placed.tolist() == [0, 1, 2, 3]
    assert device_of(placed) == devices_of(name, HERE)[0]


def test_array_that_is_cut_arrives_whole_on_several_devices():
    placed = put_on_destinations(cut_in_two(jnp.arange(4)), ["CPU:1", "CPU:2"], HERE)
    assert [part.tolist() for part in placed.values] == [[0, 1, 2, 3]] * 2


def test_value_for_a_per_replica_value_goes_to_all_replicas():
    placed = put_on_destinations(np.arange(3), PerReplica((1, 2)), HERE)
    assert [part.tolist() for part in placed.values] == [[0, 1, 2]] * 2
    assert [device_of(part) for part in placed.values] == list(HERE.devices)


def test_value_that_is_there_already_is_not_copied():
    array = replicate(jnp.ones(2), over(2, 3))
    assert put_on_destinations(array, ["CPU:2", "CPU:3"], HERE).array is array


def test_copy_of_one_device_is_that_of_a_replicated_value():
    """It is taken from where it lies, not sent again."""
    array = replicate(jnp.ones(1024), over(2, 3))
    placed = put_on_destinations(array, "CPU:3", HERE)
    shard = array.addressable_shards[1].data
    assert placed.unsafe_buffer_pointer() == shard.unsafe_buffer_pointer()


def test_values_on_different_devices_can_be_added():
    array = replicate(jnp.ones(2), over(3, 5))
    total = put_on_destinations(array, "CPU:3", HERE) + put_on_destinations(
        array, "CPU:4", HERE
    )
    assert total.tolist() == [2, 2]


def test_traced_value_is_mirrored_wherever_it_goes():
    seen = []
    jax.make_jaxpr(lambda x: seen.append(put_on_destinations(x, "CPU:3", HERE)))(1.0)
    assert isinstance(seen[0], Mirrored)
    assert isinstance(seen[0].array, jax.core.Tracer)


# As an ordinary array.


def test_replicated_value_is_seen_as_one_on_the_first_device():
    view = host_view(replicate(jnp.arange(2.0), over(3, 2)))
    assert device_of(view) == cpus[3]
    assert view.tolist() == [0, 1]
    assert (view + jax.device_put(jnp.ones(2), cpus[5])).tolist() == [1, 2]


@pytest.mark.parametrize("value", [None, 1.0, "text"], ids=repr)
def test_what_is_no_array_is_seen_as_it_is(value):
    assert host_view(value) is value


def test_traced_value_is_seen_as_it_is():
    seen = []
    jax.make_jaxpr(lambda x: seen.append(host_view(x) is x))(1.0)
    assert seen == [True]


def test_variable_of_one_device_is_a_destination():
    variable = create(mirrax.OneDeviceStrategy("CPU:4"), 0.0)
    assert device_of(put_on_destinations(1.0, variable, HERE)) == cpus[4]
