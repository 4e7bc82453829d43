import jax
import jax.numpy as jnp
import pytest

import mirrax
from tests.programs import create, engines, replica_id


@pytest.fixture
def strategy():
    return mirrax.CentralStorageStrategy(["CPU:0", "CPU:1"], parameter_device="CPU:2")


def test_variables_are_on_the_parameter_device(strategy):
    variable = create(strategy, 1.0)
    assert variable.device.endswith("CPU:2")
    assert strategy.extended.parameter_devices == (variable.device,)
    assert len(strategy.extended.worker_devices) == 2
    assert strategy.extended.variable_created_in_scope(variable)


@engines
def test_training_equals_that_of_mirrored_variables(strategy, engine):
    def train(strategy):
        weight = create(strategy, [1.0, -1.0])

        @engine
        def step():
            x = jnp.arange(2.0) + replica_id()
            loss = lambda: jnp.sum((weight * x - 1) ** 2)  # noqa: E731
            _, gradient = mirrax.value_and_grad(loss, weight)()
            context = mirrax.get_replica_context()
            weight.assign_sub(0.1 * context.all_reduce("SUM", gradient))

        for _ in range(3):
            strategy.run(step)
        return weight.numpy().tolist()

    mirrored = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    assert train(strategy) == pytest.approx(train(mirrored))


def test_one_cpu_computes_by_default():
    strategy = mirrax.CentralStorageStrategy()
    assert strategy.num_replicas_in_sync == 1
    assert strategy.extended.parameter_devices == strategy.extended.worker_devices


def test_devices_can_be_those_of_jax():
    first, second = jax.local_devices()[:2]
    strategy = mirrax.CentralStorageStrategy([first], parameter_device=second)
    assert create(strategy, 0.0).device.endswith("CPU:1")
