"""A compiled program: variables in and out, and nothing taken that others hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.run.compiled.function import Function
from mirrax.run.compiled.program import explain
from tests.devices.fresh import run_fresh


def variable_in(strategy, value, **options):
    with strategy.scope():
        return mirrax.Variable(value, **options)


def adder(variable):
    """Returns a compiled function that adds one to the variable."""

    def add():
        variable.assign_add(jnp.ones(variable.shape))

    return mirrax.function(add)


# Variables.


def test_a_function_reads_and_writes_variables_outside_run(strategy):
    variable = variable_in(strategy, jnp.zeros(3))
    add = adder(variable)
    add()
    add()
    np.testing.assert_array_equal(variable.numpy(), [2] * 3)
    assert variable.stored.is_fully_replicated


def test_a_variable_is_written_before_run_inside_a_function(strategy):
    variable = variable_in(strategy, 1.0)

    @mirrax.function
    def step():
        variable.assign(10.0)
        result = strategy.run(lambda: variable + 1)
        variable.assign_add(5.0)
        return result

    assert float(strategy.experimental_local_results(step())[0]) == 11
    assert variable.numpy() == 15


def test_a_write_inside_run_is_seen_after_it(strategy):
    variable = variable_in(strategy, 1.0)

    def write():
        variable.assign(4.0)

    @mirrax.function
    def step():
        strategy.run(write)
        return variable * 2

    assert float(step()) == 8


def test_a_variable_of_no_strategy_stays_where_it_is(two_replicas):
    mirrored = variable_in(two_replicas, 1.0)
    plain = mirrax.Variable(1.0)

    @mirrax.function
    def step():
        plain.assign_add(mirrored)
        mirrored.assign_add(1.0)

    step()
    step()
    assert (plain.numpy(), mirrored.numpy()) == (4, 3)
    assert len(plain.stored.devices()) == 1


def test_an_error_in_run_leaves_variables_as_they_were(strategy):
    variable = variable_in(strategy, 1.0)

    @mirrax.function
    def step():
        variable.assign(5.0)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        strategy.run(step)
    assert variable.numpy() == 1


def test_a_variable_is_overwritten_in_place(strategy):
    variable = variable_in(strategy, jnp.zeros(3))
    add = adder(variable)
    add()
    before = variable.stored
    add()
    assert before.is_deleted()


# What others hold stays.


def test_a_replicated_array_that_was_assigned_stays(two_replicas):
    array = jax.device_put(jnp.ones(3), two_replicas.topology.replicated)
    variable = variable_in(two_replicas, jnp.zeros(3))
    variable.assign(array)
    adder(variable)()
    np.testing.assert_array_equal(array, [1] * 3)


def test_a_value_returned_from_run_stays(strategy):
    variable = variable_in(strategy, jnp.zeros(3))
    read = mirrax.function(variable.read_value)
    result = strategy.run(read)
    adder(variable)()
    np.testing.assert_array_equal(
        strategy.experimental_local_results(result)[0], [0] * 3
    )


# Donating one buffer twice ends the process, so they have one of their own.
SHARED_VALUES = """
import mirrax, jax.numpy as jnp

def eager(left, right):
    left.assign(right.value)

def compiled(left, right):
    mirrax.function(lambda: [left.assign(right)])()

def one_output_twice(left, right):
    mirrax.function(lambda: [right.assign(right * 1), left.assign(right)])()

def one_array_twice(left, right):
    array = jnp.ones(3)
    left.assign(array)
    right.assign(array)

def add_to(left, right):
    left.assign_add(jnp.ones(3))
    right.assign_add(jnp.ones(3))

mirrax.config.set_logical_devices("CPU", 2)
for devices in (["CPU:0"], ["CPU:0", "CPU:1"]):
    for share in (eager, compiled, one_output_twice, one_array_twice):
        with mirrax.MirroredStrategy(devices).scope():
            left, right = mirrax.Variable(jnp.zeros(3)), mirrax.Variable(jnp.ones(3))
        share(left, right)
        add = mirrax.function(lambda: add_to(left, right))
        add()
        add()
        print(share.__name__, *left.numpy(), *right.numpy())
"""


def test_variables_that_were_given_one_value_go_separate_ways():
    names = ["eager", "compiled", "one_output_twice", "one_array_twice"]
    wanted = [f"{name} 3.0 3.0 3.0 3.0 3.0 3.0" for name in names]
    assert run_fresh(SHARED_VALUES).splitlines() == 2 * wanted


# Results.


def test_a_function_returns_any_structure(strategy):
    variable, given = variable_in(strategy, 1.0), object()

    @mirrax.function
    def make(x):
        return {"array": x + 1, "none": None, "rest": [given, "text", variable]}

    result = make(1.0)
    assert float(result["array"]) == 2
    assert result["none"] is None
    assert [a is b for a, b in zip(result["rest"], [given, "text", variable])] == [
        True,
        True,
        True,
    ]


def test_numbers_come_back_as_arrays():
    result = mirrax.function(lambda: (2.5, np.float32(1)))()
    assert [isinstance(item, jax.Array) for item in result] == [True, True]
    assert [float(item) for item in result] == [2.5, 1]


def test_what_all_replicas_have_comes_back_as_one_replicated_array(two_replicas):
    step = mirrax.function(lambda: two_replicas.run(lambda: jnp.ones(2)))
    result = step()
    assert isinstance(result, jax.Array)
    assert result.sharding.is_fully_replicated
    assert len(result.devices()) == 2


def test_what_differs_comes_back_per_replica(two_replicas):
    def replica_id():
        return mirrax.get_replica_context().replica_id_in_sync_group

    result = mirrax.function(lambda: two_replicas.run(replica_id))()
    assert isinstance(result, mirrax.PerReplica)
    assert [int(part) for part in result.values] == [0, 1]
    assert [part.devices() for part in result.values] == [
        {device} for device in two_replicas.topology.devices
    ]


def test_parts_can_be_taken_out_of_a_result_inside_the_function(two_replicas):
    def replica_id():
        return mirrax.get_replica_context().replica_id_in_sync_group

    @mirrax.function
    def step():
        left, right = two_replicas.run(replica_id).values
        return 10 * left + right

    assert int(step()) == 1


def test_a_per_replica_argument_comes_back_as_it_was(two_replicas):
    value = two_replicas.experimental_distribute_values_from_function(
        lambda context: jnp.full(2, float(context.replica_id_in_sync_group))
    )
    result = mirrax.function(lambda x: x)(value)
    np.testing.assert_array_equal(result.values, [[0, 0], [1, 1]])


def test_run_and_reduce_are_one_program(two_replicas):
    traces = []

    @mirrax.function
    def step(x):
        traces.append(None)
        squares = two_replicas.run(lambda y: y**2, args=(x,))
        return two_replicas.reduce("SUM", squares, axis=0)

    value = two_replicas.experimental_distribute_values_from_function(
        lambda context: jnp.full(3, 1.0 + context.replica_id_in_sync_group)
    )
    assert [float(step(value)), float(step(value))] == [15, 15]
    assert len(traces) == 1
    assert isinstance(step, Function)


# Where arguments lie.


@pytest.mark.parametrize("number", [0, 1, 5])
def test_an_argument_can_be_tied_to_any_device(two_replicas, number):
    array = jax.device_put(jnp.ones(2), jax.devices()[number])
    step = mirrax.function(lambda x: x + 1)
    np.testing.assert_array_equal(two_replicas.run(step, args=(array,)), [2, 2])


def test_an_argument_can_be_spread_over_other_devices(two_replicas, four_replicas):
    array = jax.device_put(jnp.ones(2), four_replicas.topology.replicated)
    step = mirrax.function(lambda x: x + 1)
    np.testing.assert_array_equal(two_replicas.run(step, args=(array,)), [2, 2])


def test_results_are_new_containers_at_each_call():
    step = mirrax.function(lambda: {"log": []})
    step()["log"].append(1)
    assert step() == {"log": []}


def explained(*changed):
    error = ValueError("mine")
    explain(error, changed)
    return getattr(error, "__notes__", [])


def test_an_error_that_cost_nothing_says_nothing():
    assert explained() == []
    assert explained(mirrax.Variable(1.0), mirrax.Variable(jnp.ones(2))) == []


def test_lost_variables_are_named_and_no_others(two_replicas):
    with two_replicas.scope():
        mirrored = mirrax.Variable(jnp.ones(2), name="mirrored")
    kept, lost = mirrax.Variable(1.0, name="kept"), mirrax.Variable(2.0, name="lost")
    mirrored.stored.delete()
    lost.stored.delete()
    (note,) = explained(mirrored, kept, lost)
    assert "the values of 'mirrored:0', 'lost:0' are lost" in note
    assert "Restore a checkpoint, or `assign` new values" in note


def test_a_variable_is_found_again_once_it_is_assigned():
    variable = mirrax.Variable(1.0)
    variable.stored.delete()
    variable.assign(2.0)
    assert explained(variable) == []
