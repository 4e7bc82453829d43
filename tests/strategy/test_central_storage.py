import jax
import jax.numpy as jnp
import pytest

import mirrax
from tests.programs import create, engines, parts, replica_id


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
def test_replicas_read_the_variable(strategy, engine):
    variable = create(strategy, 2.0)
    read = engine(lambda: variable * (replica_id() + 1))
    assert parts(strategy, strategy.run(read)) == [2, 4]


@engines
@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("SUM", 4), ("MEAN", 2.5), ("ONLY_FIRST_REPLICA", 2)],
    ids=str,
)
def test_replicas_write_together(strategy, engine, aggregation, expected):
    chosen = mirrax.VariableAggregation[aggregation]
    variable = create(strategy, 1.0, aggregation=chosen)
    step = engine(lambda: [variable.assign_add(replica_id() + 1.0), variable * 1.0][1])
    result = strategy.run(step)
    assert variable.numpy() == expected
    assert parts(strategy, strategy.per_replica(result)) == [expected, expected]
    assert variable.device.endswith("CPU:2")


@engines
def test_unequal_writes_without_aggregation_are_refused(strategy, engine):
    variable = create(strategy, 1.0)
    with pytest.raises(ValueError, match=r"assign(ed)? the same value"):
        strategy.run(engine(lambda: [variable.assign(replica_id() * 1.0)]))


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


def test_assigning_outside_run_keeps_the_device(strategy):
    variable = create(strategy, 1.0)
    variable.assign_add(2.0)
    assert variable.numpy() == 3
    assert variable.device.endswith("CPU:2")


def test_one_cpu_computes_by_default():
    strategy = mirrax.CentralStorageStrategy()
    assert strategy.num_replicas_in_sync == 1
    assert strategy.extended.parameter_devices == strategy.extended.worker_devices


def test_devices_can_be_those_of_jax():
    first, second = jax.local_devices()[:2]
    strategy = mirrax.CentralStorageStrategy([first], parameter_device=second)
    assert create(strategy, 0.0).device.endswith("CPU:1")
