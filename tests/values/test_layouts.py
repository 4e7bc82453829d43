"""The forms in which the parts of a per-replica value are held."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrax.devices.topology import Topology
from mirrax.values.layouts import to_device
from tests.programs import device_of


@pytest.fixture
def topology():
    return Topology(tuple(jax.devices("cpu")[1:3]))


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
