"""Mirrored: one value, equal on all its devices."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from tests.programs import create, device_of, engines, parts


@pytest.fixture
def value(two_replicas):
    array = jnp.array([1.0, 2.0])
    return mirrax.Mirrored(jax.device_put(array, two_replicas.topology.replicated))


def test_values_are_one_equal_part_per_device(two_replicas, value):
    assert parts(two_replicas, value) == [[1.0, 2.0], [1.0, 2.0]]
    devices = [device_of(part) for part in value.values]
    assert devices == list(two_replicas.topology.devices)


def test_parts_on_different_devices_can_be_mixed(value):
    first, second = value.values
    assert (first + second).tolist() == [2.0, 4.0]


def test_device_is_that_of_the_first_part(two_replicas, value):
    assert value.device == two_replicas.topology.devices[0]


def test_jax_sees_the_array(value):
    doubled = jax.tree.map(lambda x: 2 * x, {"a": value})["a"]
    assert isinstance(doubled, jax.Array)
    assert doubled.tolist() == [2.0, 4.0]


def test_gradient_with_respect_to_a_mirrored_value(value):
    gradient = jax.grad(lambda x: jnp.sum(x**2))(value)
    assert gradient.tolist() == [2.0, 4.0]


@engines
def test_each_replica_gets_its_part(two_replicas, value, engine):
    result = two_replicas.run(engine(lambda x: x + 1), args=(value,))
    assert parts(two_replicas, result) == [[2.0, 3.0], [2.0, 3.0]]


def test_eager_replica_gets_the_part_on_its_device(two_replicas, value):
    found = two_replicas.run(lambda x: str(device_of(x)), args=(value,))
    assert found.values == tuple(str(d) for d in two_replicas.topology.devices)


def test_mirrored_value_of_an_assignment_is_equal_everywhere(two_replicas):
    v = create(two_replicas, [0.0, 0.0])
    assert parts(two_replicas, v.assign([1.0, 2.0])) == [[1.0, 2.0], [1.0, 2.0]]
