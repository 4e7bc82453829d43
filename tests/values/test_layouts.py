"""The forms in which the parts of a per-replica value are held."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrax.devices.topology import Topology
from mirrax.values.layouts import Joined, Parts, Replicated, join_parts, to_device
from tests.programs import device_of


@pytest.fixture
def topology():
    return Topology(tuple(jax.devices("cpu")[1:3]))


def rows(layout):
    return [np.asarray(part).tolist() for part in layout.parts]


def test_parts_are_held_as_they_are():
    assert Parts(("a", 1)).parts == ("a", 1)


def test_join_puts_the_parts_one_after_another(topology):
    joined = join_parts((jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])), topology)
    assert joined.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert joined.sharding == topology.split


def test_join_makes_a_vector_of_scalars(topology):
    assert join_parts((jnp.float32(1), jnp.float32(2)), topology).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "given",
    [[[1.0, 2.0], [3.0, 4.0]], [[[1.0]], [[2.0]]], [[], []]],
    ids=["vectors", "matrices", "empty"],
)
def test_joined_gives_back_what_was_joined(topology, given):
    arrays = tuple(jnp.asarray(part) for part in given)
    assert rows(Joined(join_parts(arrays, topology), False, topology)) == given


def test_joined_gives_back_scalars(topology):
    array = join_parts((jnp.float32(1), jnp.float32(2)), topology)
    assert rows(Joined(array, True, topology)) == [1.0, 2.0]


def test_joined_parts_lie_on_their_devices(topology):
    layout = Joined(join_parts((jnp.ones(2), jnp.ones(2)), topology), False, topology)
    assert [device_of(part) for part in layout.parts] == list(topology.devices)


def test_joined_parts_can_be_traced(topology):
    def second(array):
        return Joined(array, False, topology).parts[1]

    assert jax.jit(second)(jnp.arange(4.0)).tolist() == [2.0, 3.0]


def test_traced_scalars_are_scalars(topology):
    def second(array):
        return Joined(array, True, topology).parts[1]

    assert jax.jit(second)(jnp.arange(2.0)).shape == ()


def test_alike_has_an_equal_part_for_each_replica(topology):
    array = jax.device_put(jnp.array([1.0, 2.0]), topology.replicated)
    layout = Replicated(array, topology)
    assert rows(layout) == [[1.0, 2.0], [1.0, 2.0]]
    assert [device_of(part) for part in layout.parts] == list(topology.devices)


@pytest.mark.parametrize(
    "value", [1.0, np.float32(1.0), np.ones(2)], ids=["float", "scalar", "array"]
)
def test_to_device_places_numbers_and_arrays(topology, value):
    array = to_device(value, topology.devices[0])
    assert device_of(array) == topology.devices[0]


def test_to_device_unties_what_is_tied(topology):
    first, second = topology.devices
    tied = jax.device_put(jnp.ones(2), first)
    elsewhere = jax.device_put(jnp.ones(2), second)
    assert (to_device(tied, first) + elsewhere).tolist() == [2.0, 2.0]
