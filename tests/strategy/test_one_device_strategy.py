"""OneDeviceStrategy: everything on the one device."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from tests.programs import create, device_of, engines


@pytest.fixture
def strategy():
    return mirrax.OneDeviceStrategy("/cpu:3")


def test_device_is_needed():
    with pytest.raises(TypeError, match="device"):
        mirrax.OneDeviceStrategy()


def test_device_of_jax_is_taken():
    strategy = mirrax.OneDeviceStrategy(jax.devices("cpu")[2])
    assert strategy.extended.worker_devices[0].endswith("CPU:2")


@engines
def test_results_lie_on_the_device(strategy, engine):
    result = strategy.run(engine(lambda: jnp.ones(2)))
    assert device_of(result) == jax.devices("cpu")[3]


def test_variables_lie_on_the_device(strategy):
    v = create(strategy, lambda: jnp.ones(2))
    assert device_of(v.value) == jax.devices("cpu")[3]
    assert v.device == "/job:localhost/replica:0/task:0/device:CPU:3"


@engines
def test_variables_stay_on_the_device(strategy, engine):
    v = create(strategy, [1.0, 2.0])
    elsewhere = jax.device_put(jnp.ones(2), jax.devices("cpu")[1])
    strategy.run(engine(lambda: v.assign_add([1.0, 1.0])))
    v.assign(elsewhere)
    assert device_of(v.value) == jax.devices("cpu")[3]


def test_variable_can_be_changed_by_an_array_of_another_device(strategy):
    v = create(strategy, [1.0, 2.0])
    v.assign_add(jax.device_put(jnp.ones(2), jax.devices("cpu")[1]))
    assert v.numpy().tolist() == [2.0, 3.0]


@engines
def test_replica_context_is_that_of_the_only_replica(strategy, engine):
    def step():
        context = mirrax.get_replica_context()
        total = context.all_reduce("SUM", jnp.ones(2))
        return total, context.all_gather(jnp.ones(2), axis=0)

    total, gathered = strategy.run(engine(step))
    assert total.tolist() == [1.0, 1.0]
    assert gathered.tolist() == [1.0, 1.0]
