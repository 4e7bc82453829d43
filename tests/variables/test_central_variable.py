"""Variables that are kept on one device, for replicas on several."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.collectives.all_reduce import XlaAllReduce
from mirrax.collectives.reduce import Collective
from mirrax.devices.topology import Topology
from mirrax.variables.central_variable import CentralVariable
from tests.programs import create, device_of, engines, parts, replica_id

cpus = jax.devices("cpu")
SUM = mirrax.VariableAggregation.SUM


@pytest.fixture
def strategy():
    return mirrax.CentralStorageStrategy(["CPU:0", "CPU:1"], parameter_device="CPU:2")


def central(initial_value, **arguments):
    """Returns a variable on the third device, for replicas on the first two."""
    collective = Collective(Topology(tuple(cpus[:2])), XlaAllReduce())
    return CentralVariable(
        collective, cpus[2], initial_value=initial_value, **arguments
    )


# By itself.


@pytest.mark.parametrize(
    "value",
    [1.5, [1.0, 2.0], np.float16([1, 2]), lambda: jnp.ones(2)],
    ids=["number", "list", "numpy", "callable"],
)
def test_variable_is_made_on_its_device(value):
    variable = central(value)
    given = value() if callable(value) else value
    assert variable.lies_on == (cpus[2],)
    assert variable.device.endswith("CPU:2")
    assert device_of(variable.value) == cpus[2]
    assert variable.numpy().tolist() == np.asarray(given).tolist()


def test_initial_value_is_computed_on_the_device():
    found = []
    central(lambda: found.append(jnp.ones(2)) or found[0])
    assert device_of(found[0]) == cpus[2]


def test_arguments_are_those_of_variables():
    variable = central(1, name="count", dtype="int8", trainable=False, aggregation=SUM)
    assert (variable.name, variable.dtype) == ("count:0", np.int8)
    assert not variable.trainable
    assert variable.aggregation is SUM


def test_array_that_a_program_leaves_elsewhere_comes_home():
    variable = central([0.0, 0.0])
    variable.store(jax.device_put(jnp.ones(2), cpus[5]))
    assert device_of(variable.stored) == cpus[2]
    assert variable.numpy().tolist() == [1, 1]


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda v: v.assign([5.0, 6.0]), [5, 6]),
        (lambda v: v.assign_add(jnp.ones(2)), [2, 3]),
        (lambda v: v.assign_sub(jax.device_put(jnp.ones(2), cpus[4])), [0, 1]),
    ],
    ids=["assign", "add", "sub"],
)
def test_write_outside_run_stays_on_the_device(write, expected):
    variable = central([1.0, 2.0])
    assert write(variable) is variable
    assert variable.numpy().tolist() == expected
    assert variable.lies_on == (cpus[2],)


def test_write_that_does_not_fit_is_refused():
    variable = central([1.0, 2.0])
    with pytest.raises(ValueError, match="shape"):
        variable.assign([1.0, 2.0, 3.0])
    assert variable.numpy().tolist() == [1, 2]


def test_copy_is_a_variable_of_its_own_in_the_same_place():
    variable = central(1.0)
    other = copy.deepcopy(variable)
    variable.assign(2.0)
    assert (other.numpy(), other.lies_on) == (1, (cpus[2],))
    assert isinstance(other, CentralVariable)


def test_jax_sees_the_value():
    variable = central([1.0, 2.0])
    assert jnp.sum(variable) == 3
    doubled = jax.tree.map(lambda x: x * 2, {"v": variable})
    assert doubled["v"].tolist() == [2, 4]


# In replicas.


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
